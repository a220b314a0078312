"""Tests cutting batches by timestamp and merging them: with every limit the order is that of a single merge."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message, Producer, TopicPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import read_topics
from kestrel_sql.kafka.client.offsets import BrokerOffsets, from_members, to_members
from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.kafka.source import look_ahead, merged_source
from kestrel_sql.kafka.source.merge import FeedOrder, TimeMerge
from kestrel_sql.kafka.source.merged_source import RECORDS, MergedReader, SourceSpec
from kestrel_sql.spark.io.topics import ARROW_INPUT

Log = Mapping[Position, list[int | None]]
"""The timestamps of each partition by offset.

None is an offset that no consumer sees: the end of a transaction, a record of an aborted one, or one that compaction
removed. -1 is a record without a timestamp.
"""

KINDS: Mapping[str, Callable[[random.Random, int], list[int | None]]] = {
    "in order": lambda random_, at: [at],
    "with late records": lambda random_, at: [max(0, at + random_.choice([0, 3, 30]) * random_.randint(-1, 1))],
    "of few times": lambda random_, at: [at // 50],
    "in transactions": lambda random_, at: [at, *([None] if random_.random() < 0.2 else [])],
    "one record a transaction": lambda random_, at: [at, None],
    "with aborted transactions": lambda random_, at: [at, *([None] * 30 if random_.random() < 0.1 else [])],
    "compacted": lambda random_, at: [at if random_.random() < 0.3 else None],
    "of the time of the log": lambda random_, at: [1_700_000_000_000 + at],
    "without timestamps": lambda random_, at: [-1 if random_.random() < 0.5 else at],
    "only aborted": lambda random_, at: [None],
    "empty": lambda random_, at: [],
}
"""What a topic may hold, by the time of a record."""

_END = KafkaError._PARTITION_EOF


@dataclass(slots=True)
class FakeConsumer:
    """A consumer of partitions: it sends what is visible in pieces, and the end of each partition."""

    logs: Log
    random: random.Random
    at: dict[Position, int] = field(default_factory=dict)
    sent: Counter[tuple[Position, int]] = field(default_factory=Counter)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.at.clear()
        self.incremental_assign(places)

    def incremental_assign(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            assert (place.topic, place.partition) not in self.at
            self.at[place.topic, place.partition] = place.offset

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            del self.at[place.topic, place.partition]

    def unassign(self) -> None:
        self.at.clear()

    def consume(self, most: int, timeout: float) -> list[Message]:
        assert most > 0
        reading = [position for position, at in self.at.items() if at <= len(self.logs[position])]
        if not reading:
            return []
        position = self.random.choice(reading)
        found: list[Message] = []
        while len(found) < min(most, 25) and self.at[position] <= len(self.logs[position]):
            offset = self.at[position]
            self.at[position] += 1
            is_end = offset == len(self.logs[position])
            time = None if is_end else self.logs[position][offset]
            if is_end or time is not None:
                self.sent[position, offset] += not is_end
                error = KafkaError(_END) if is_end else None
                kind = TIMESTAMP_NOT_AVAILABLE if time == -1 else 1
                found.append(Message(*position, offset, b"k", b"", None, error, (kind, time or 0)))
        return found


def merged(logs: Log, start: Offsets, end: Offsets) -> list[tuple[Position, int]]:
    """The oldest of the next records, again and again, as Kafka Streams takes them."""
    ranges = {p: [at for at in range(start[p], end[p]) if log[at] is not None] for p, log in logs.items()}
    waiting = {p: deque(offsets) for p, offsets in ranges.items() if offsets}
    taken = []
    while waiting:
        position = min(waiting, key=lambda p: max(0, logs[p][waiting[p][0]] or 0))
        taken.append((position, waiting[position].popleft()))
        if not waiting[position]:
            del waiting[position]
    return taken


def rows_of(name: str, times: Sequence[int], first: int = 0) -> pa.RecordBatch:
    offsets = range(first, first + len(times))
    return pa.RecordBatch.from_pydict({"name": [name] * len(times), "off": [*offsets], "ts": [*times]})


def taken(merge: TimeMerge) -> list[tuple[Position, int]]:
    rows = merge.take()
    return [((row["name"], 0), row["off"]) for row in rows.to_pylist()] if rows else []


def shuffled(random_: random.Random) -> list[int]:
    """Timestamps, many of them out of order."""
    spread = random_.choice([0, 3, 30])
    return [
        max(0, at * random_.randint(0, 5) + random_.randint(-spread, spread)) for at in range(random_.randint(0, 80))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_rows_that_arrive_in_pieces_are_merged_as_if_all_were_there(seed: int) -> None:
    random_ = random.Random(seed)
    logs = {(name, 0): shuffled(random_) for name in "abc"}
    merge, found, at = TimeMerge(len(logs)), [], dict.fromkeys(logs, 0)
    ended: set[Position] = set()
    while not merge.is_done:
        number, (position, log) = random_.choice([*enumerate(logs.items())])
        count = random_.randint(0, 15)
        merge.offer(number, rows_of(position[0], log[at[position] : at[position] + count], at[position]))
        at[position] += count
        if at[position] >= len(log):
            merge.end(number)
            ended.add(position)
        some = taken(merge)
        found += some
        assert some or len(ended) < len(logs) or merge.is_done
    assert found == merged(logs, dict.fromkeys(logs, 0), {p: len(log) for p, log in logs.items()})


@dataclass(slots=True)
class Source:
    """A merged source over logs."""

    logs: Log
    random: random.Random
    looked: FakeConsumer = field(init=False)
    read: FakeConsumer = field(init=False)
    reader: MergedReader = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin in another process."""
        self.looked, self.read = FakeConsumer(self.logs, self.random), FakeConsumer(self.logs, self.random)
        counts = Counter(topic for topic, _ in self.logs)
        spec = SourceSpec(config=KafkaConfig(servers="none:1"), partitions=counts, start={}, limit=1)
        self.reader = MergedReader(spec, lambda batches: batches, SCHEMA)

    def batches(self, limit: int, ends: Sequence[Offsets], restarts: float = 0) -> Iterator[Batch]:
        """Take batch after batch to the first ends, then to the second, and so on."""
        start: Offsets = dict.fromkeys(self.logs, 0)
        for end in ends:
            self.reader._offsets = SimpleNamespace(ends=lambda _, end=end: end)  # type: ignore[assignment]
            while start != end:
                if self.random.random() < restarts:
                    self.restart()
                    self.reader._offsets = SimpleNamespace(ends=lambda _, end=end: end)  # type: ignore[assignment]
                after = self.reader.latestOffset(to_members(start), ReadMaxRows(limit))
                assert from_members(after) != start, "a batch makes progress"
                yield start, from_members(after), [*self.tasks(start, after)]
                start = from_members(after)

    def tasks(self, start: Offsets, end: Mapping[str, Mapping[str, int]]) -> Iterator[list[tuple[Position, int]]]:
        """The records of each task in their order."""
        for task in self.reader.partitions(to_members(start), end):  # type: ignore[arg-type]
            rows = [row for batch in self.reader.read(task) for row in batch.to_pylist() if row[RECORDS] is None]
            assert [row["feed"] for row in rows] == sorted(row["feed"] for row in rows)
            yield [((row["topic"], row["part"]), row["off"]) for row in rows]


Batch = tuple[Offsets, Offsets, list[list[tuple[Position, int]]]]
"""Where it begins and ends, and what its tasks read."""

SCHEMA = pa.schema([(RECORDS, pa.int64()), *ARROW_INPUT])


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Callable[[Log, random.Random], Source]:
    def opened(logs: Log, random_: random.Random) -> Source:
        found = Source(logs, random_)
        monkeypatch.setattr(look_ahead, "open_consumer", lambda _: found.looked)
        monkeypatch.setattr(merged_source, "_consumer", lambda _: found.read)
        return found

    return opened


def logs_of(random_: random.Random, kinds: Sequence[str]) -> Log:
    """A topic of each kind, of one partition to three."""
    return {
        (f"{number}", partition): [
            entry
            for at in range(random_.randint(0, 40))
            for entry in KINDS[kind](random_, at * random_.choice([1, 1, 1, 3]))
        ]
        for number, kind in enumerate(kinds)
        for partition in range(random_.choice([1, 3]))
    }


def ends_of(logs: Log) -> dict[Position, int]:
    return {position: len(log) for position, log in logs.items()}


@pytest.mark.parametrize("restarts", [0, 0.3], ids=["uncut", "restarted"])
@pytest.mark.parametrize("limit", [1, 7, 30, 100, 1_000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_cut_into_batches_cannot_be_seen(
    source: Callable[[Log, random.Random], Source], kind: str, limit: int, restarts: float
) -> None:
    random_ = random.Random(f"{kind}{limit}")
    logs = logs_of(random_, [kind, kind, random_.choice([*KINDS])])
    first = {position: random_.randint(0, len(log)) for position, log in logs.items()}
    found, start = [], dict.fromkeys(logs, 0)
    for begin, end, tasks in source(logs, random_).batches(limit, [first, ends_of(logs)], restarts):
        found += merged(logs, begin, end)
        assert [task for task in tasks if task] == _by_task(merged(logs, begin, end))
    assert found == merged(logs, start, first) + merged(logs, first, ends_of(logs)), "later records show no cut"


def _by_task(records: Sequence[tuple[Position, int]]) -> list[list[tuple[Position, int]]]:
    """The records of each partition number in their order."""
    numbers = sorted({partition for (_, partition), _ in records})
    return [[each for each in records if each[0][1] == number] for number in numbers]


def _written(config: KafkaConfig, topic: Callable[..., str]) -> list[str]:
    """Topics of two partitions with times of 2023, except one with the time of the log."""
    names = [topic(2), topic(2), topic(2, message_timestamp_type="LogAppendTime"), topic(2), topic(2)]
    transactions, aborted, _, late, _ = names
    for partition in range(2):
        for name, ends in ((transactions, [1, 60]), (aborted, [1, 30, 60])):
            producer = Producer({**config.client(), "transactional.id": f"{name}-{partition}"})
            producer.init_transactions(30)
            for number, (start, end) in enumerate(pairwise([0, *ends])):
                producer.begin_transaction()
                for at in range(start, end):
                    producer.produce(name, b"v", partition=partition, timestamp=BEGIN_MS + 1_000 * at)
                if len(ends) > 2 and number == 1:
                    producer.abort_transaction(30)
                else:
                    producer.commit_transaction(30)
    producer = Producer(config.client(linger_ms=5))
    for at in range(60):
        for partition, name in enumerate(names[2:4]):
            behind = 40_000 if name == late and at % 7 == 3 else 0
            producer.produce(name, b"v", partition=partition, timestamp=BEGIN_MS + 1_000 * at - behind)
    assert producer.flush(30) == 0
    return names


BEGIN_MS = 1_690_000_000_000


def test_the_cut_cannot_be_seen_on_a_broker_either(kafka: KafkaConfig, topic: Callable[..., str]) -> None:
    names = _written(kafka, topic)
    offsets = BrokerOffsets(kafka)
    assert offsets.settle(names)
    spec = SourceSpec(config=kafka, partitions=dict.fromkeys(names, 2), start={}, limit=1)
    start, ends = dict.fromkeys(spec.positions, 0), offsets.ends(spec.positions)
    logs: dict[Position, list[int | None]] = {position: [None] * ends[position] for position in spec.positions}
    for name, records in read_topics(kafka, names).items():
        for record in records:
            logs[name, record.partition][record.offset] = record.timestamp
    whole = merged(logs, start, ends)
    assert len(whole) == 2 * (60 + 31 + 0) + 2 * 60
    for limit in (20, 50, 100, 200, 1_000):
        reader, begin, found = MergedReader(spec, lambda batches: batches, SCHEMA), to_members(start), []
        while begin != to_members(ends):
            end = reader.latestOffset(begin, ReadMaxRows(limit))
            expected = merged(logs, from_members(begin), from_members(end))
            # The broker gives one time to all records that come at once.
            assert len(expected) <= max(limit, 60)
            found += expected
            for task in reader.partitions(begin, end):
                rows = [row for batch in reader.read(task) for row in batch.to_pylist() if row[RECORDS] is None]
                own = [((row["topic"], row["part"]), row["off"]) for row in rows]
                assert own == [each for each in expected if each[0][1] == task.number]  # type: ignore[attr-defined]
            begin = end
        assert found == whole


def test_batches_are_of_the_size_of_their_limit(source: Callable[[Log, random.Random], Source]) -> None:
    logs: Log = {
        ("a", 0): [*range(0, 4000, 2)],
        ("b", 0): [*chain.from_iterable((at, None) for at in range(1, 4000, 2))],
    }
    opened = source(logs, random.Random(0))
    sizes = [len(tasks[0]) for _, _, tasks in opened.batches(100, [ends_of(logs)])]
    assert sizes[:-1] == [100] * (len(sizes) - 1)
    assert max(opened.looked.sent.values()) == 1, "a record is looked at once"


def test_older_rows_of_a_table_come_before_newer_ones_of_a_stream(
    source: Callable[[Log, random.Random], Source],
) -> None:
    logs: Log = {("table", 0): [*range(1000)], ("stream", 0): [*range(5000, 6000)]}
    opened = source(logs, random.Random(0))
    order = [topic for *_, (task,) in opened.batches(100, [ends_of(logs)]) for (topic, _), _ in task]
    assert order == ["table"] * 1000 + ["stream"] * 1000


def test_records_of_one_timestamp_are_one_batch(source: Callable[[Log, random.Random], Source]) -> None:
    logs: Log = {("a", 0): [7] * 50, ("b", 0): [7] * 50}
    assert [len(tasks[0]) for _, _, tasks in source(logs, random.Random(0)).batches(10, [ends_of(logs)])] == [100]


def test_nothing_is_taken_while_an_input_may_still_give_something_older() -> None:
    merge = TimeMerge(2)
    merge.offer(0, rows_of("a", [5]))
    assert taken(merge) == []
    merge.offer(1, rows_of("b", [3]))
    assert taken(merge) == [(("b", 0), 0)]
    merge.end(1)
    assert taken(merge) == [(("a", 0), 0)]
    assert not merge.is_done
    merge.end(0)
    assert merge.is_done


def test_the_first_of_equal_heads_comes_first() -> None:
    merge = TimeMerge(2)
    merge.offer(1, rows_of("b", [4]))
    merge.offer(0, rows_of("a", [4]))
    assert taken(merge) == [(("a", 0), 0)], "the next of a may be as old as that of b"
    merge.end(0)
    assert taken(merge) == [(("b", 0), 0)]


def test_feed_numbers_rise_with_time_and_differ_between_tasks() -> None:
    times = np.array([10, 10, 9, 11, 2**60, 2**61])
    first, second = FeedOrder(0, 2), FeedOrder(1, 2)
    ones, others = first.numbers(times).tolist(), [int(second.numbers(times[at : at + 1])[0]) for at in range(6)]
    assert ones == sorted(set(ones))
    assert others == sorted(set(others))
    assert not set(ones) & set(others)
    assert FeedOrder(1, 2).numbers(np.array([12]))[0] > max(ones[2], others[2])
    assert max(others) < 2**63
    assert second.numbers(np.array([], np.int64)).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_a_feed_number_is_the_least_of_its_task_behind_the_last_one_and_the_time(seed: int) -> None:
    random_ = random.Random(seed)
    tasks = random_.randint(1, 5)
    task = random_.randrange(tasks)
    times = [random_.randint(0, 3) for _ in range(40)]
    last, expected = -1, []
    for time in times:
        least = max(last + 1, time << 20)
        last = least + (task - least) % tasks
        expected.append(last)
    order, cut = FeedOrder(task, tasks), random_.randrange(40)
    found = [*order.numbers(np.array(times[:cut], np.int64)), *order.numbers(np.array(times[cut:], np.int64))]
    assert found == expected
