"""Tests the first offsets of a new query, and a start that is stopped at once, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from tests.kafka.helpers import produce, read
from tests.kafka.unstarted import application, execute

pytestmark = pytest.mark.spark

APP = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (KAFKA_TOPIC='{1}_a') AS SELECT * FROM S;
CREATE STREAM B WITH (KAFKA_TOPIC='{1}_b') AS SELECT * FROM A;
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM C WITH (KAFKA_TOPIC='{1}_c') AS SELECT * FROM S;
"""


@pytest.mark.rules("L8.6")
def test_a_new_query_starts_at_auto_offset_reset(kafka: KafkaConfig, tmp_path: Path, topic: Callable[..., str]) -> None:
    source, name = topic(1), f"begin_{time.time_ns()}"
    produce(kafka.servers, source, [("a", '{"V":1}', 1), ("b", '{"V":2}', 2)])
    execute(kafka, tmp_path, APP.format(source, name))
    starts = {query.id: dict(query.start) for query in CheckpointFolder(tmp_path).load().queries.values()}
    assert starts == {"CSAS_A_0": {(source, 0): 2}, "CSAS_B_1": {(f"{name}_a", 0): 0}, "CSAS_C_2": {(source, 0): 0}}
    # A query that is there goes on; a new one begins at the end, but reads what another new one derives.
    produce(kafka.servers, source, [("c", '{"V":3}', 3)])
    execute(kafka, tmp_path, APP.format(source, name) + f"SET 'auto.offset.reset' = 'latest'; {NEW.format(name)}")
    starts = {query.id: dict(query.start) for query in CheckpointFolder(tmp_path).load().queries.values()}
    assert starts["CSAS_A_0"] == {(source, 0): 2}
    assert starts["CSAS_D_3"] == {(source, 0): 3}
    assert starts["CSAS_E_4"] == {(f"{name}_d", 0): 0}


NEW = (
    "CREATE STREAM D WITH (KAFKA_TOPIC='{0}_d') AS SELECT * FROM S; CREATE STREAM E WITH (KAFKA_TOPIC='{0}_e') AS"
    " SELECT * FROM D;"
)


@pytest.mark.usefixtures("impatient")
def test_a_stop_while_the_broker_is_awaited_is_no_failure(tmp_path: Path) -> None:
    told: list[str] = []
    run = application(KafkaConfig(servers="127.0.0.1:1"), tmp_path, [], told, patience=600)
    run.say = lambda _: run.stop.set()
    assert run.run("SHOW TOPICS;")


def test_a_record_of_the_time_zero_is_not_one_of_today(
    kafka: KafkaConfig, tmp_path: Path, topic: Callable[..., str]
) -> None:
    source = topic(1)
    text = f"CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');"
    execute(kafka, tmp_path, f"{text} INSERT INTO S (ROWTIME, K, V) VALUES (0, 'a', 1);")
    assert read(kafka.servers, source, 1) == [(0, b"a", b'{"V":1}', 1)]
