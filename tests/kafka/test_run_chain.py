"""Chains of queries over event time that is behind the clock: what a sink writes is read as one merge of everything."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kestrel_sql.topics.partitioner import partition_of
from tests.kafka.applications import Applications
from tests.kafka.helpers import create

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM S (K STRING KEY, C STRING) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE TABLE U (K STRING PRIMARY KEY, D STRING) WITH (KAFKA_TOPIC='{0}_u', VALUE_FORMAT='JSON');
CREATE STREAM S2 WITH (KAFKA_TOPIC='{0}_s2') AS {1};
CREATE TABLE N WITH (KAFKA_TOPIC='{0}_n') AS SELECT C, COUNT(*) AS N FROM S2
  WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 MINUTES) GROUP BY C;
"""
FIRST = {
    "without state": "SELECT * FROM S",
    "with state": "SELECT S.K AS K, C FROM S LEFT JOIN U ON S.K = U.K",
}
BEGIN_MS, STEP_MS, RECORDS = 1_690_000_000_000, 6_000, 2_000
"""3 h 20 min in 2023."""


@pytest.mark.rules("O8.2", "E12.2.1")
@pytest.mark.parametrize(
    ("first", "keys", "ways"),
    [
        ("with state", "placed", "caught up"),
        ("with state", "elsewhere", "caught up"),
        ("without state", "elsewhere", "caught up"),
        ("without state", "none", "caught up"),
        *(pytest.param(first, "placed", "live", marks=pytest.mark.nightly) for first in FIRST),
        pytest.param("without state", "placed", "caught up", marks=pytest.mark.nightly),
        pytest.param("without state", "elsewhere", "live", marks=pytest.mark.nightly),
    ],
)
def test_a_windowed_count_of_a_stream_of_our_own_loses_nothing(
    applications: Applications, tmp_path: Path, first: str, keys: str, ways: str
) -> None:
    """The records are in the partitions of their keys, as Java's producers place them, elsewhere, or have no keys."""
    name, servers = f"chain{time.time_ns()}", applications.config.servers
    create(servers, 2, f"{name}_s", f"{name}_u")
    value = json.dumps({"C": "c"})
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for at in range(RECORDS):
        key = None if keys == "none" else f"k{at}"
        partition = partition_of(f"k{at}".encode(), 2) if keys == "placed" else at // 3 % 2
        producer.produce(f"{name}_s", value, key, partition, timestamp=BEGIN_MS + STEP_MS * at)
    assert producer.flush(30) == 0
    text, checkpoint = SCRIPT.format(name, FIRST[first]), tmp_path / "checkpoint"
    spark = {"spark.sql.shuffle.partitions": "2"}
    if ways == "caught up":
        done = applications.catch_up(text, checkpoint, batch_records=600, spark=spark)
        assert done.well, done.said
    else:
        properties = {"auto.offset.reset": "earliest"}
        with applications.running(text, checkpoint, properties=properties, batch_records=600, spark=spark) as done:
            done.await_(lambda: "CTAS_N_1" in done.states and done.states["CTAS_N_1"].rows_in >= RECORDS, 300)
    assert done.states["CTAS_N_1"].late_records == 0, done.states["CTAS_N_1"].first_late
    # The broker may delete what it holds of 2023 before it is read.
    assert f"CTAS_N_1: {RECORDS} records read, {RECORDS} written, 0 bad" in done.said
