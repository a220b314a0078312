"""Tests the sink against a broker with a consumer that reads committed records."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import read_topics
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.sink.distribute import DISTRIBUTED, distribute_batches
from kestrel_sql.kafka.sink.partitioner import murmur2_all
from kestrel_sql.kafka.sink.sink import Delivery, gathered, likely_layout, write_batch
from kestrel_sql.kafka.sink.transaction import Layout
from kestrel_sql.spark.io.topics import WIRE_OUTPUT
from kestrel_sql.spark.runtime.session import open_session
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import LogEntry

pytestmark = pytest.mark.spark

Topic = Callable[..., str]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return open_session()


def row(to: str, ordinal: int, key: bytes | None, value: bytes | None, **more: Any) -> dict[str, Any]:
    given = {
        "q": 0,
        "ordinal": [ordinal, 0],
        "topic": to,
        "timestamp": ordinal,
        "key": key,
        "value": value,
        "headers": [],
    }
    return {**given, **more}


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    names = [
        part.split(" ")[0] for part in WIRE_OUTPUT.replace("ARRAY<STRUCT<key: STRING, value: BINARY>>", "H").split(", ")
    ]
    schema = spark.createDataFrame([], WIRE_OUTPUT).schema
    return spark.createDataFrame([tuple(r.get(name) for name in names) for r in rows], schema).repartition(3)


def test_a_record_arrives_with_all_that_it_has(spark: SparkSession, kafka: KafkaConfig, topic: Topic) -> None:
    name = topic(1)
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "b", "value": b""}]
    rows = [row(name, 5, b"k", b"v", headers=headers), row(name, 6, b"k", None), row(name, 7, None, b"")]
    assert write_batch(frame(spark, rows), 0, query=f"q{name}", config=kafka).records == 3
    first, tombstone, keyless = read_topics(kafka, [name])[name]
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", 5)
    assert first.headers == (("a", b"1"), ("a", None), ("b", b""))
    assert (tombstone.value, keyless.key, keyless.value) == (None, None, b"")


@pytest.mark.parametrize("delivery", list(Delivery))
def test_each_partition_is_in_the_order_of_ordinals(
    spark: SparkSession, kafka: KafkaConfig, topic: Topic, delivery: Delivery
) -> None:
    name = topic(5)
    rows = [row(name, ordinal, f"k{ordinal % 7}".encode(), str(ordinal).encode()) for ordinal in range(1, 400)]
    random.Random(1).shuffle(rows)
    write_batch(frame(spark, rows), 0, query=f"q{name}", config=kafka, delivery=delivery)
    found = defaultdict(list)
    for record in read_topics(kafka, [name])[name]:
        assert record.key is not None
        assert record.partition == partition_of(record.key, 5)
        found[record.partition].append(int(record.value or b""))
    assert sum(len(ordinals) for ordinals in found.values()) == 399
    assert all(ordinals == sorted(ordinals) for ordinals in found.values())


@pytest.mark.parametrize("before", [Layout(2, {}), Layout(3, {}), None])
def test_distributed_records_are_distributed_again_after_a_change(
    spark: SparkSession, kafka: KafkaConfig, topic: Topic, before: Layout | None
) -> None:
    name = topic(5)
    rows = [row(name, ordinal, f"k{ordinal % 7}".encode(), str(ordinal).encode()) for ordinal in range(100)]
    layout = before or likely_layout(kafka, f"q{name}", 2)
    spread = frame(spark, rows).mapInArrow(distribute_batches(layout, {}), DISTRIBUTED)
    assert (
        write_batch(spread, 0, query=f"q{name}", config=kafka, slots=2, sinks={name: 0}, distributed=layout).records
        == 100
    )
    found = read_topics(kafka, [name])[name]
    assert all(record.partition == partition_of(record.key or b"", 5) for record in found)
    for number in range(5):
        ordinals = [int(record.value or b"") for record in found if record.partition == number]
        assert ordinals == sorted(ordinals)


@pytest.mark.parametrize("slots", [1, 3])
def test_a_writer_gets_its_blobs_in_the_order_of_ordinals(spark: SparkSession, slots: int) -> None:
    blobs = spark.createDataFrame([(at % slots, [100 - at, at], b"") for at in range(60)], DISTRIBUTED).repartition(3)
    rows = gathered(blobs, Layout(slots, {})).withColumn("task", spark_partition_id()).toArrow().to_pylist()
    for slot in range(slots):
        ordinals = [row["first"] for row in rows if row["task"] == row["slot"] == slot]
        assert ordinals == sorted([100 - at, at] for at in range(60) if at % slots == slot)


def test_a_replayed_batch_is_written_once(spark: SparkSession, kafka: KafkaConfig, topic: Topic) -> None:
    name = topic(3)
    rows = [row(name, ordinal, str(ordinal).encode(), b"v") for ordinal in range(50)]
    counts = [write_batch(frame(spark, rows), batch, query=f"q{name}", config=kafka).records for batch in (4, 4, 5, 5)]
    assert counts == [50, 50, 50, 50]
    assert len(read_topics(kafka, [name])[name]) == 100


def test_a_half_committed_batch_is_completed_as_it_was_begun(
    spark: SparkSession, kafka: KafkaConfig, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(4)
    rows = [row(name, ordinal, str(ordinal).encode(), b"v") for ordinal in range(80)]
    half = [r for r in rows if partition_of(r["key"], 4) % 2 == 0]
    monkeypatch.setattr("kestrel_sql.kafka.sink.sink._parallelism", lambda _: 4)
    assert write_batch(frame(spark, half), 9, query=f"q{name}", config=kafka).records == len(half)
    monkeypatch.setattr("kestrel_sql.kafka.sink.sink._parallelism", lambda _: 3)
    assert write_batch(frame(spark, rows), 9, query=f"q{name}", config=kafka).records == 80
    assert len(read_topics(kafka, [name])[name]) == 80


def test_an_older_run_can_write_nothing(spark: SparkSession, kafka: KafkaConfig, topic: Topic) -> None:
    name = topic(1)
    rows = [row(name, 1, b"k", b"v")]
    write_batch(frame(spark, rows), 3, query=f"q{name}", config=kafka, run=2)
    for batch, run in ((4, 1), (2, 2)):
        with pytest.raises(QueryError, match="run 2"):
            write_batch(frame(spark, rows), batch, query=f"q{name}", config=kafka, run=run)
    assert len(read_topics(kafka, [name])[name]) == 1


def test_another_producer_of_the_same_name_is_locked_out(spark: SparkSession, kafka: KafkaConfig, topic: Topic) -> None:
    name = topic(1)
    # A broker that ends the transaction for its age would lock it out, too.
    zombie = Producer(kafka.client(transactional_id=f"q{name}-0", transaction_timeout_ms=600_000))
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(name, b"zombie", b"k")
    zombie.flush(30)
    write_batch(frame(spark, [row(name, 1, b"k", b"v")]), 0, query=f"q{name}", config=kafka, slots=1)
    with pytest.raises(Exception, match=r"fenced|epoch|Fenced"):
        zombie.commit_transaction(30)
    # It cannot even be closed in good order.
    with pytest.raises(KafkaException, match="fenced"):
        zombie.close()
    assert [record.value for record in read_topics(kafka, [name])[name]] == [b"v"]


def test_a_writer_that_was_replaced_opens_again(spark: SparkSession, kafka: KafkaConfig, topic: Topic) -> None:
    name = topic(1)
    write_batch(frame(spark, [row(name, 1, b"k", b"0")]), 0, query=f"q{name}", config=kafka, slots=1)
    with closing(Producer(kafka.client(transactional_id=f"q{name}-0"))) as other:
        other.init_transactions(30)
        write_batch(frame(spark, [row(name, 1, b"k", b"1")]), 1, query=f"q{name}", config=kafka, slots=1)
    assert [record.value for record in read_topics(kafka, [name])[name]] == [b"0", b"1"]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_record_that_is_too_large_stops_the_query(
    spark: SparkSession, kafka: KafkaConfig, topic: Topic, delivery: Delivery
) -> None:
    name = topic(1, max_message_bytes="1000")
    small = [row(name, ordinal, b"k", b"v") for ordinal in range(100)]
    large = row(name, 50, b"k", random.Random(1).randbytes(5000), src_topic="in", src_part=1, src_off=42)
    with pytest.raises(QueryError) as caught:
        write_batch(frame(spark, [*small, large]), 0, query=f"q{name}", config=kafka, delivery=delivery)
    assert f"{name}-0" in caught.value.message
    assert "in-1 at offset 42" in caught.value.message
    if delivery is Delivery.EXACTLY_ONCE:
        assert read_topics(kafka, [name])[name] == []


def test_small_records_reach_a_topic_with_a_low_limit(spark: SparkSession, kafka: KafkaConfig, topic: Topic) -> None:
    name = topic(1, max_message_bytes="2000")
    random_ = random.Random(1)
    rows = [row(name, ordinal, b"k", random_.randbytes(300)) for ordinal in range(200)]
    assert write_batch(frame(spark, rows), 0, query=f"q{name}", config=kafka).records == 200


def test_a_missing_topic_is_named(spark: SparkSession, kafka: KafkaConfig) -> None:
    with pytest.raises(QueryError, match="nowhere does not exist"):
        write_batch(frame(spark, [row("nowhere", 1, b"k", b"v")]), 0, query="qnowhere", config=kafka)


def test_log_entries_are_returned_in_the_order_of_ordinals(
    spark: SparkSession, kafka: KafkaConfig, topic: Topic
) -> None:
    name = topic(2)
    log = {
        "kind": 0,
        "logger": "l",
        "src_topic": "in",
        "src_part": 1,
        "topic": None,
        "timestamp": None,
        "headers": None,
    }
    rows = [
        row(name, 1, b"k", b"v"),
        *(row(name, ordinal, None, None, **log, message=f"m{ordinal}", src_off=ordinal) for ordinal in (3, 2)),
    ]
    written = write_batch(frame(spark, rows), 0, query=f"q{name}", config=kafka)
    assert written.records == 1
    assert written.entries == tuple(
        (0, LogEntry(kind=0, logger="l", message=f"m{at}", topic="in", partition=1, offset=at)) for at in (2, 3)
    )


def test_an_empty_batch_writes_nothing(spark: SparkSession, kafka: KafkaConfig) -> None:
    assert write_batch(frame(spark, []), 0, query="qempty", config=kafka).records == 0


def test_the_number_of_a_batch_is_committed_in_the_consumer_group(
    spark: SparkSession, kafka: KafkaConfig, topic: Topic
) -> None:
    name = topic(1)
    write_batch(frame(spark, [row(name, 1, b"k", b"v")]), 7, query=f"q{name}", config=kafka)
    with closing(Consumer(kafka.client(group_id=f"q{name}"))) as consumer:
        assert consumer.committed([TopicPartition(name, 0)], 30)[0].offset == 7


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_keys_hash_as_in_java(spark: SparkSession, count: int) -> None:
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = next(
        jvm.java.io.File(str(jar)).toURI().toURL() for jar in connector_jars().paths if "kafka-clients" in jar.name
    )
    utils = jvm.java.net.URLClassLoader(urls).loadClass("org.apache.kafka.common.utils.Utils")
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = jvm.java.lang.Class.forName("[B")
    method = utils.getMethod("murmur2", types)
    random_ = random.Random(7)
    keys = [random_.randbytes(random_.randrange(60)) for _ in range(count)]
    ours = murmur2_all(pa.array(keys, pa.binary())).astype("int32").tolist()
    arguments = gateway.new_array(jvm.java.lang.Object, 1)
    for key, hashed in zip(keys, ours, strict=True):
        arguments[0] = key
        assert method.invoke(None, arguments) == hashed
