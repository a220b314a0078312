"""Tests the processing log of a run against a broker.

The record, the causes of the error, and the position of the record.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from pathlib import Path

import pytest

from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, read

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (KAFKA_TOPIC='{0}_a') AS SELECT K, 10 / V AS X FROM S;
CREATE STREAM R (K STRING KEY, U STRING) WITH (KAFKA_TOPIC='{0}_r', VALUE_FORMAT='JSON');
CREATE TABLE C WITH (KAFKA_TOPIC='{0}_c') AS SELECT U, COUNT(*) AS N FROM R
  WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY U EMIT FINAL;
"""
BAD = '{"V": "many"}'


RIDES = (("a", 1), ("b", 12), ("a", 16), ("b", 40)), (("c", 41), ("a", 90), ("a", 120), ("b", 3), ("c", 4))
"""A column and a timestamp (s) of the records before and after a restart; the last two are late."""
PARTITIONS = 2


@pytest.mark.rules("E6.2", "E12.2.1", "O9.4")
def test_entries_contain_their_record_if_the_setting_says_so_and_windows_come_out_once(
    applications: Applications, tmp_path: Path
) -> None:
    name, servers = f"log_{time.time_ns()}", applications.config.servers
    create(servers, 1, f"{name}_s")
    create(servers, PARTITIONS, f"{name}_r")
    # The broker may delete what it holds of 1970 before it is read.
    began = int(time.time()) // 60 * 60 - 600
    found, entries = [], []
    for included, rides in zip(("true", "false"), RIDES, strict=True):
        produce(servers, f"{name}_s", [("k", BAD, 5), ("k", '{"V": 0}', 6)])
        produce(servers, f"{name}_r", ((str(at), json.dumps({"U": u}), (began + at) * 1000) for u, at in rides))
        rows = {"ksql.logging.processing.rows.include": included}
        run = applications.catch_up(SCRIPT.format(name), tmp_path, properties=rows, log_topic=f"{name}_log")
        assert run.well, run.text
        whole = [json.loads(value or b"") for _, _, value, _ in read(servers, f"{name}_log", 1)]
        late = [entry for entry in whole if "CTAS_C_1" in entry["logger"]]
        offset, entries = len(entries), [entry for entry in whole if entry not in late]
        assert [entry["source"] for entry in entries] == [
            {"topic": f"{name}_s", "partition": 0, "offset": at} for at in range(offset + 2)
        ]
        parts = [next(part for part in entry["message"].values() if isinstance(part, dict)) for entry in entries]
        found.append(parts[offset:])
    (unread, failed), (unread_without, failed_without) = found
    assert unread["recordB64"] == b64encode(BAD.encode()).decode()
    assert (unread["target"], unread["topic"]) == ("value", f"{name}_s")
    assert unread["cause"]
    assert failed["record"] == '[0,6,0,1,"k"]'
    assert unread_without == {name: said for name, said in unread.items() if name != "recordB64"}
    assert failed_without == {name: said for name, said in failed.items() if name != "record"}

    (expired,) = late
    text = expired["message"]["recordProcessingError"]["errorMessage"]
    assert text.startswith(f"Skipping record for expired window. timestamp=[{(began + 3) * 1000}] ")
    assert text.endswith(" records=[2]")
    assert (run.states["CTAS_C_1"].late_records, run.states["CTAS_C_1"].bad_records) == (2, 0)
    assert "CTAS_C_1: 5 records read, 3 written, 0 bad, 2 late" in run.said
    windows = [
        ((key or b"")[:1].decode(), int.from_bytes((key or b"")[1:], "big") // 1000 - began, value)
        for _, key, value, _ in read(servers, f"{name}_c", PARTITIONS)
    ]
    counted = (("a", 0), ("a", 10), ("b", 10), ("b", 40), ("c", 40), ("a", 90))
    assert windows == [(user, start, b'{"N":1}') for user, start in counted]
