"""Tests cutting batches by timestamp and merging them: with every limit the order is that of a single merge."""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.kafka.source.merge import Cutter, FeedOrder, TimeMerge

Log = Mapping[Position, list[int]]
"""The timestamps of each partition."""


def first_from(logs: Log, time: int) -> Offsets:
    found = {p: next((at for at, ts in enumerate(log) if ts >= time), None) for p, log in logs.items()}
    return {p: at for p, at in found.items() if at is not None}


def merged(logs: Log, start: Offsets, end: Offsets) -> list[tuple[Position, int]]:
    """The oldest of the next records, again and again, as Kafka Streams takes them."""
    heads = [(log[start[p]], number, p, start[p]) for number, (p, log) in enumerate(logs.items()) if start[p] < end[p]]
    heapq.heapify(heads)
    taken = []
    while heads:
        _, number, position, offset = heapq.heappop(heads)
        taken.append((position, offset))
        if offset + 1 < end[position]:
            heapq.heappush(heads, (logs[position][offset + 1], number, position, offset + 1))
    return taken


def rows_of(name: str, times: Sequence[int], first: int = 0) -> pa.RecordBatch:
    offsets = range(first, first + len(times))
    return pa.RecordBatch.from_pydict({"name": [name] * len(times), "off": [*offsets], "ts": [*times]})


def taken(merge: TimeMerge) -> list[tuple[Position, int]]:
    rows = merge.take()
    return [((row["name"], 0), row["off"]) for row in rows.to_pylist()] if rows else []


@pytest.mark.parametrize("seed", range(60))
def test_rows_that_arrive_in_pieces_are_merged_as_if_all_were_there(seed: int) -> None:
    random_ = random.Random(seed)
    logs = logs_of(random_)
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


def in_batches(logs: Log, limit: int, *, first: Offsets | None = None) -> list[list[tuple[Position, int]]]:
    """Take batch after batch; the records from `first` on arrive when those before are taken."""
    start: dict[Position, int] = dict.fromkeys(logs, 0)
    batches, there = [], dict(logs)
    cutter = Cutter(lambda time: first_from(there, time))
    for ends in (first, {p: len(log) for p, log in logs.items()}):
        if ends is not None:
            there = {p: log[: ends[p]] for p, log in logs.items()}
            while start != ends:
                end = cutter.cut(start, ends, limit)
                batches.append(merged(logs, start, end))
                assert batches[-1], "a batch makes progress"
                start = end
    return batches


def logs_of(random_: random.Random) -> Log:
    """Records of three topics, many of them out of order."""
    spread = random_.choice([0, 3, 30])
    return {
        (topic, 0): [
            max(0, at * random_.randint(0, 5) + random_.randint(-spread, spread))
            for at in range(random_.randint(0, 80))
        ]
        for topic in ("a", "b", "c")
    }


@pytest.mark.parametrize("seed", range(40))
def test_the_cut_into_batches_cannot_be_seen(seed: int) -> None:
    random_ = random.Random(seed)
    logs = logs_of(random_)
    whole = merged(logs, dict.fromkeys(logs, 0), {p: len(log) for p, log in logs.items()})
    batches = in_batches(logs, random_.randint(1, 30))
    assert [item for batch in batches for item in batch] == whole


@pytest.mark.parametrize("seed", range(40))
def test_late_records_do_not_show_the_cut(seed: int) -> None:
    random_ = random.Random(seed)
    logs = logs_of(random_)
    first = {p: random_.randint(0, len(log)) for p, log in logs.items()}
    whole = merged(logs, dict.fromkeys(logs, 0), first) + merged(logs, first, {p: len(log) for p, log in logs.items()})
    batches = in_batches(logs, random_.randint(1, 30), first=first)
    assert [item for batch in batches for item in batch] == whole


def test_older_rows_of_a_table_come_before_newer_ones_of_a_stream() -> None:
    logs = {("table", 0): list(range(1000)), ("stream", 0): list(range(5000, 6000))}
    order = [topic for batch in in_batches(logs, 100) for (topic, _), _ in batch]
    assert order == ["table"] * 1000 + ["stream"] * 1000


def test_batches_keep_to_the_limit_where_timestamps_differ() -> None:
    logs = {("a", 0): list(range(0, 4000, 2)), ("b", 0): list(range(1, 4000, 2))}
    sizes = [len(batch) for batch in in_batches(logs, 100)]
    assert max(sizes) <= 100
    assert len(sizes) <= 80


def test_the_broker_is_asked_about_once_for_a_batch() -> None:
    logs = {("table", 0): list(range(2000)), ("stream", 0): [50_000 + 10 * at for at in range(2000)]}
    asked: list[int] = []

    def ask(time: int) -> Offsets:
        asked.append(time)
        return first_from(logs, time)

    cutter, batches = Cutter(ask), 0
    start, ends = dict.fromkeys(logs, 0), {p: len(log) for p, log in logs.items()}
    while start != ends:
        start, batches = cutter.cut(start, ends, 50), batches + 1
    assert 80 <= batches <= 100
    # The first two search for a time, and so does the one in which the other topic begins, at another rate.
    assert len(asked) < 2 * batches + 150


def test_records_of_one_timestamp_are_one_batch() -> None:
    logs = {("a", 0): [7] * 50, ("b", 0): [7] * 50}
    assert [len(batch) for batch in in_batches(logs, 10)] == [100]


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
