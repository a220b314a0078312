"""Chains of queries over event time that is behind the clock: what a sink writes is read as one merge of everything."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kestrel_sql.topics.partitioner import partition_of
from tests.kafka.applications import Applications
from tests.kafka.helpers import create

pytestmark = pytest.mark.spark

CHAIN = """
CREATE STREAM S{1} (K STRING KEY, C STRING) WITH (KAFKA_TOPIC='{0}_{3}', VALUE_FORMAT='JSON');
CREATE STREAM S{1}_2 WITH (KAFKA_TOPIC='{0}_s{1}_2') AS {2};
CREATE TABLE N{1} WITH (KAFKA_TOPIC='{0}_n{1}') AS SELECT C, COUNT(*) AS N FROM S{1}_2
  WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 MINUTES) GROUP BY C;
"""
TABLE = "CREATE TABLE U (K STRING PRIMARY KEY, D STRING) WITH (KAFKA_TOPIC='{0}_u', VALUE_FORMAT='JSON');"
WITHOUT_STATE = "SELECT * FROM S{}"
WITH_STATE = "SELECT S{0}.K AS K, C FROM S{0} LEFT JOIN U ON S{0}.K = U.K"
BEGIN_MS, STEP_MS, RECORDS = 1_690_000_000_000, 6_000, 2_000
"""3 h 20 min in 2023."""

CAUGHT_UP = (
    (WITH_STATE, "placed"),
    (WITH_STATE, "elsewhere"),
    (WITHOUT_STATE, "elsewhere"),
    (WITHOUT_STATE, "none"),
)
LIVE = ((WITH_STATE, "placed"), (WITHOUT_STATE, "placed"), (WITHOUT_STATE, "elsewhere"))


@pytest.mark.rules("O8.2", "E12.2.1")
@pytest.mark.parametrize(
    ("chains", "is_live"),
    [
        pytest.param(CAUGHT_UP, False, id="caught up"),
        pytest.param(LIVE, True, id="live", marks=pytest.mark.nightly),
        pytest.param(LIVE[1:2], False, id="without state, placed", marks=pytest.mark.nightly),
    ],
)
def test_windowed_counts_of_streams_of_our_own_lose_nothing(
    applications: Applications, tmp_path: Path, chains: Sequence[tuple[str, str]], is_live: bool
) -> None:
    """The records are in the partitions of their keys, as Java's producers place them, elsewhere, or have no keys."""
    name, servers = f"chain{time.time_ns()}", applications.config.servers
    keys = dict.fromkeys(keys for _, keys in chains)
    create(servers, 2, f"{name}_u", *(f"{name}_{each}" for each in keys))
    for each in keys:
        produce_placed(servers, f"{name}_{each}", each)
    texts = [CHAIN.format(name, at, first.format(at), keys) for at, (first, keys) in enumerate(chains)]
    text, checkpoint = "".join((TABLE.format(name), *texts)), tmp_path / "checkpoint"
    counts = [f"CTAS_N{at}_{2 * at + 1}" for at in range(len(chains))]
    spark = {"spark.sql.shuffle.partitions": "2"}
    if is_live:
        properties = {"auto.offset.reset": "earliest"}
        with applications.running(text, checkpoint, properties=properties, batch_records=600, spark=spark) as done:
            for count in counts:
                done.await_(lambda count=count: count in done.states and done.states[count].rows_in >= RECORDS, 300)
    else:
        done = applications.catch_up(text, checkpoint, batch_records=600, spark=spark)
        assert done.well, done.said
    for count, chain in zip(counts, chains, strict=True):
        assert done.states[count].late_records == 0, (chain, done.states[count].first_late)
        # The broker may delete what it holds of 2023 before it is read.
        assert f"{count}: {RECORDS} records read, {RECORDS} written, 0 bad" in done.said, chain


def produce_placed(servers: str, topic: str, keys: str) -> None:
    """Write records in the order of their time, a step apart."""
    value = json.dumps({"C": "c"})
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for at in range(RECORDS):
        key = None if keys == "none" else f"k{at}"
        partition = partition_of(f"k{at}".encode(), 2) if keys == "placed" else at // 3 % 2
        producer.produce(topic, value, key, partition, timestamp=BEGIN_MS + STEP_MS * at)
    assert producer.flush(30) == 0
