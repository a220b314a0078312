"""Tests cutting batches by timestamp and merging them: with every limit the order is that of a single merge."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.kafka.source.merge import Cutter, FeedOrder, HeadMerge

Log = Mapping[Position, list[int]]
"""The timestamps of each partition."""


def first_from(logs: Log, time: int) -> Offsets:
    found = {p: next((at for at, ts in enumerate(log) if ts >= time), None) for p, log in logs.items()}
    return {p: at for p, at in found.items() if at is not None}


def merged(logs: Log, start: Offsets, end: Offsets) -> list[tuple[Position, int]]:
    merge: HeadMerge[tuple[Position, int]] = HeadMerge(len(logs))
    taken: list[tuple[Position, int]] = []
    for number, (position, log) in enumerate(logs.items()):
        for offset in range(start[position], end[position]):
            merge.offer(number, log[offset], (position, offset))
            taken += [item for _, item in merge.take()]
        merge.end(number)
    taken += [item for _, item in merge.take()]
    assert merge.is_done
    return taken


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
    merge: HeadMerge[str] = HeadMerge(2)
    merge.offer(0, 5, "a5")
    assert list(merge.take()) == []
    merge.offer(1, 3, "b3")
    assert list(merge.take()) == [(3, "b3")]
    merge.end(1)
    assert list(merge.take()) == [(5, "a5")]
    assert not merge.is_done
    merge.end(0)
    assert merge.is_done


def test_the_first_of_equal_heads_comes_first() -> None:
    merge: HeadMerge[str] = HeadMerge(2)
    merge.offer(1, 4, "b")
    merge.offer(0, 4, "a")
    assert [item for _, item in merge.take()] == ["a"]


def test_feed_numbers_rise_with_time_and_differ_between_tasks() -> None:
    first, second = FeedOrder(0, 2), FeedOrder(1, 2)
    numbers = [(first.next(t), second.next(t)) for t in (10, 10, 9, 11, 2**60, 2**61)]
    ones, others = zip(*numbers, strict=True)
    assert list(ones) == sorted(set(ones))
    assert list(others) == sorted(set(others))
    assert not set(ones) & set(others)
    assert FeedOrder(1, 2).next(12) > max(numbers[2])
    assert max(others) < 2**63
