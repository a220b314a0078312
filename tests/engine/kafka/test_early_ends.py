"""Tests reading from a new leader, which may report the end of a partition before its last records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import until_ends
from kestrel_sql.kafka.source import merged_source
from kestrel_sql.kafka.source.merged_source import RECORDS, MergedReader, SourceSpec
from kestrel_sql.kafka.source.ranges import by_position
from kestrel_sql.spark.io.topics import ARROW_INPUT

_END = KafkaError._PARTITION_EOF

SCHEMA = pa.schema([(RECORDS, pa.int64()), *ARROW_INPUT])


def message(offset: int, code: int | None = None, partition: int = 0) -> Message:
    return Message(
        topic="in",
        partition=partition,
        offset=offset,
        key=b"k",
        value=b"%d" % offset,
        headers=None,
        error=None if code is None else KafkaError(code),
        timestamp=(1, 1000 + offset),
    )


def consumer(chunks: Iterable[Sequence[Message]]) -> Any:
    """A consumer that returns these chunks, one with each call, and then nothing."""
    left: Iterator[Sequence[Message]] = iter(chunks)
    ignored = dict.fromkeys(("assign", "unassign", "incremental_unassign"), lambda *_: None)
    return SimpleNamespace(
        consume=lambda *_, **__: list(next(left, ())),
        assignment=lambda: [TopicPartition("in", 0)],
        get_watermark_offsets=lambda *_, **__: (0, 5),
        **ignored,
    )


EARLY = [
    [message(0), message(1)],
    [message(2, _END)],
    [message(2), message(3)],
    # The offset 4 is a control record.
    [message(5, _END)],
]


AWAY = [[message(0), message(-1, KafkaError._TRANSPORT)], EARLY[0][1:], *EARLY[1:]]
"""The leader is away for a moment, and the client goes on by itself."""


def reader() -> MergedReader:
    config = KafkaConfig(servers="127.0.0.1:1")
    return MergedReader(
        SourceSpec(config=config, partitions={"in": 1}, start={}, limit=100), lambda batches: batches, SCHEMA
    )


@pytest.mark.parametrize("chunks", [EARLY, AWAY], ids=["early end", "away"])
def test_a_merge_reads_all_records_of_its_range(
    chunks: Sequence[Sequence[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged_source, "_consumer", lambda config: consumer(chunks))
    merged = reader()
    (task,) = merged.partitions({"in": {"0": 0}}, {"in": {"0": 5}})
    found = [(row["off"], row[RECORDS]) for batch in merged.read(task) for row in batch.to_pylist()]
    assert found == [(0, None), (1, None), (2, None), (3, None), (None, 4)]


def test_a_batch_does_not_end_before_it_begins_when_a_new_leader_knows_fewer_records() -> None:
    merged = reader()
    merged._offsets = SimpleNamespace(ends=lambda _: {("in", 0): 3})  # type: ignore[assignment]
    assert merged.latestOffset({"in": {"0": 5}}, merged.getDefaultReadLimit()) == {"in": {"0": 5}}


@pytest.mark.parametrize(("ends", "expected"), [({("in", 0): 5}, [0, 1, 2, 3]), (None, [0, 1])])
def test_a_topic_is_read_to_the_end_that_was_asked_for(
    ends: dict[tuple[str, int], int] | None, expected: list[int]
) -> None:
    chunks = until_ends(consumer(EARLY), ends)
    assert [record.offset for records in chunks for record in records] == expected


def test_a_topic_is_read_to_the_end_that_it_had_while_producers_write_on() -> None:
    busy = ([message(at), message(at + 1)] for at in count(0, 2))
    found = [record.offset for records in until_ends(consumer(busy)) for record in records]
    assert found == [0, 1, 2, 3, 4, 5]


def test_messages_are_told_apart_by_partition() -> None:
    given = [message(0), message(7, partition=1), message(1)]
    found = {position: [each.offset() for each in own] for position, own in by_position(given).items()}
    assert found == {("in", 0): [0, 1], ("in", 1): [7]}
