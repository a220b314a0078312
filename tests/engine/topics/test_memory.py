from __future__ import annotations

import pytest

from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.partitioner import murmur2, partition_of
from kestrel_sql.topics.records import Record


def record(topic: str, timestamp: int, value: bytes = b"v") -> Record:
    return Record(topic=topic, key=None, value=value, timestamp=timestamp)


@pytest.fixture
def broker() -> MemoryBroker:
    memory = MemoryBroker()
    for topic, timestamp in (("a", 5), ("a", 1), ("b", 3), ("a", 9), ("b", 3)):
        memory.produce(record(topic, timestamp))
    return memory


def test_offsets_count_by_topic(broker: MemoryBroker) -> None:
    assert [r.offset for r in broker.records("a")] == [0, 1, 2]
    assert broker.records("nothing") == ()
    assert broker.topics == ("a", "b")


def test_reads_in_the_order_of_arrival(broker: MemoryBroker) -> None:
    assert [(r.topic, r.timestamp) for r in broker.arrived(["b", "a"])] == [
        ("a", 5),
        ("a", 1),
        ("b", 3),
        ("a", 9),
        ("b", 3),
    ]
    assert [(r.topic, r.timestamp) for r in broker.arrived(["b", "a"], since=3)] == [("a", 9), ("b", 3)]


def test_reads_the_topic_with_the_oldest_head_and_keeps_offset_order(broker: MemoryBroker) -> None:
    assert [(r.topic, r.timestamp) for r in broker.merged(["a", "b", "a"])] == [
        ("b", 3),
        ("b", 3),
        ("a", 5),
        ("a", 1),
        ("a", 9),
    ]


def test_forgets_a_deleted_topic(broker: MemoryBroker) -> None:
    broker.delete("a")
    broker.delete("a")
    assert broker.arrived(["a"]) == []
    broker.create("a")
    assert broker.topics == ("b", "a")


@pytest.mark.parametrize(
    ("key", "hashed"), [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107), (b"", 275646681)]
)
def test_murmur2_hashes_as_kafka_does(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32
    assert partition_of(key, 7) == (hashed % 2**32 & 0x7FFFFFFF) % 7
