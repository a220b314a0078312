"""A headless service of ksqlDB is stopped, and `kestrel run --adopt` goes on with its state."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from kestrel_sql.cli.main import main
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import create, produce, read
from tests.kafka.ksqldb import needs_ksqldb, start_headless
from tests.kafka.servers import eventually
from tests.kafka.takeover import ends_of, has_read

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM S (K STRING KEY, V BIGINT) WITH (KAFKA_TOPIC='{0}s', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE N WITH (KAFKA_TOPIC='{0}n') AS SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM S GROUP BY K;
CREATE STREAM F WITH (KAFKA_TOPIC='{0}f') AS SELECT * FROM S WHERE V > 2;
INSERT INTO F SELECT K, V * 10 AS V FROM S WHERE V < 1;
CREATE TABLE D WITH (KAFKA_TOPIC='{0}d') AS SELECT K, COUNT_DISTINCT(V / 2) AS D FROM S GROUP BY K;
"""
LONG = "ksql.streams.session.timeout.ms=600000"
"""The members of its groups outlast the test, unless somebody has them removed."""
QUERIES = ("CTAS_N_0", "CSAS_F_1", "INSERTQUERY_2", "CTAS_D_3")


def test_a_headless_service_is_taken_over(
    kafka: KafkaConfig, commands: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_ksqldb()
    service, script = f"h{time.time_ns()}_", tmp_path / "app.sql"
    script.write_text(SCRIPT.format(service), encoding="utf-8")
    now = int(time.time() * 1000)
    create(kafka.servers, 2, f"{service}s")

    def feed(*values: int) -> None:
        produce(kafka.servers, f"{service}s", [(key, json.dumps({"V": v}), now + v) for v in values for key in "abc"])

    def rows(topic: str) -> dict[str, list[tuple[int, ...]]]:
        found: dict[str, list[tuple[int, ...]]] = {}
        for _, key, value, _ in read(kafka.servers, f"{service}{topic}", 2):
            found.setdefault((key or b"").decode(), []).append(tuple(json.loads(value or b"{}").values()))
        return found

    with ExitStack() as stack:
        ksqldb = start_headless(kafka.servers, service, script, tmp_path, stack, LONG)
        feed(0, 1, 2, 3)
        groups = [f"_confluent-ksql-{service}query_{query}" for query in QUERIES]
        ends = ends_of(kafka.servers, [f"{service}s"])
        for group in groups:
            eventually(partial(has_read, kafka.servers, group, ends), ksqldb)
        ksqldb.end()
    before, distinct = rows("n"), rows("d")
    assert {key: found[-1] for key, found in before.items()} == dict.fromkeys("abc", (4, 6))
    feed(4, 5)
    broker = ["--bootstrap-servers", kafka.servers]
    dry, rebuilt = ["adopt", "--dry-run", str(script), "--service-id", service, *broker], ["--sink-from", "committed"]
    assert main(dry) == 1
    assert main([*dry, "--rebuild", *rebuilt]) == 0
    said = capsys.readouterr().out
    assert "3 keys of Aggregate-Aggregate-Materialize" in said
    assert f"begins anew and writes from {service}s-0 at " in said
    command = ["run", str(script), *broker, "--checkpoint", str(tmp_path / "c"), "--adopt", service, "--remove-members"]
    assert main([*command, "--until-caught-up"]) == 1
    assert "COUNT_DISTINCT" in capsys.readouterr().err
    assert main([*command, *rebuilt]) == 2
    assert "--rebuild" in capsys.readouterr().err
    command += ["--rebuild", *rebuilt]
    for _ in range(2):
        # The second start goes on from its own checkpoint.
        assert main([*command, "--until-caught-up"]) == 0, capsys.readouterr().err
        after = {key: found[len(before[key]) :] for key, found in rows("n").items()}
        assert after == {key: [(5, 10), (6, 15)] for key in "abc"}
        # Its state is computed from the records that ksqlDB had read, and their results are not written again.
        after = {key: found[len(distinct[key]) :] for key, found in rows("d").items()}
        assert after == {key: [(3,), (3,)] for key in "abc"}
        # Two queries write it.
        assert {key: sorted(found) for key, found in rows("f").items()} == {
            key: [(0,), (3,), (4,), (5,)] for key in "abc"
        }
