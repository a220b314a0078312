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
"""
BAD = '{"V": "many"}'


def test_entries_contain_their_record_if_the_setting_says_so(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"log_{time.time_ns()}", applications.config.servers
    create(servers, 1, f"{name}_s")
    found = []
    for offset, included in ((0, "true"), (2, "false")):
        produce(servers, f"{name}_s", [("k", BAD, 5), ("k", '{"V": 0}', 6)])
        rows = {"ksql.logging.processing.rows.include": included}
        run = applications.catch_up(SCRIPT.format(name), tmp_path, properties=rows, log_topic=f"{name}_log")
        assert run.well, run.text
        entries = [json.loads(value or b"") for _, _, value, _ in read(servers, f"{name}_log", 1)][offset:]
        assert [entry["source"] for entry in entries] == [
            {"topic": f"{name}_s", "partition": 0, "offset": at + offset} for at in (0, 1)
        ]
        found.append([next(part for part in entry["message"].values() if isinstance(part, dict)) for entry in entries])
    (unread, failed), (unread_without, failed_without) = found
    assert unread["recordB64"] == b64encode(BAD.encode()).decode()
    assert (unread["target"], unread["topic"]) == ("value", f"{name}_s")
    assert unread["cause"]
    assert failed["record"] == '[0,6,0,1,"k"]'
    assert unread_without == {name: said for name, said in unread.items() if name != "recordB64"}
    assert failed_without == {name: said for name, said in failed.items() if name != "record"}
