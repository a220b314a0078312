"""A reader sees whole batches of the queries that write its topics, though their writers commit one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kestrel_sql.kafka.client.offsets import Topic
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.source import whole_batches
from kestrel_sql.kafka.source.whole_batches import WrittenBatches, watch, whole_ends


class Partitions:
    """Two partitions of a topic `a/b`: what was committed, and what the broker shows of that."""

    def __init__(self) -> None:
        self.committed, self.shown = [5, 5], [5, 5]

    def topics(self, names: list[str]) -> dict[str, Topic]:
        return {name: Topic(name, "", 2) for name in names}

    def written(self, positions: list[Position]) -> dict[Position, int]:
        return {position: self.committed[position[1]] for position in positions}

    def commit(self, number: int, records: int) -> None:
        self.committed[number] += records
        self.shown[number] = self.committed[number]

    def seen(self, folder: Path, between: Callable[[], object] = lambda: None) -> list[int]:
        def ask() -> Mapping[Position, int]:
            found = {("a/b", number): end for number, end in enumerate(self.shown)}
            between()
            return found

        return [*whole_ends(folder, ["a/b"], ask).values()]


@pytest.fixture
def partitions() -> Partitions:
    return Partitions()


@pytest.fixture
def batches(partitions: Partitions, tmp_path: Path) -> WrittenBatches:
    watch(tmp_path, ["a/b"])
    asked: Any = partitions
    return WrittenBatches(folder=tmp_path, query="Q", topics=frozenset({"a/b", "other"}), offsets=asked)


def test_half_a_batch_is_not_seen(partitions: Partitions, batches: WrittenBatches, tmp_path: Path) -> None:
    assert partitions.seen(tmp_path) == [5, 5]
    for before, after in ([5, 5], [8, 9]), ([8, 9], [11, 13]):
        batches.begin()
        partitions.commit(0, 3)
        assert partitions.seen(tmp_path) == before
        # Its query is started again, and repeats the batch.
        batches.begin()
        partitions.commit(1, 4)
        assert partitions.seen(tmp_path) == before
        batches.end()
        assert partitions.seen(tmp_path) == after
    partitions.commit(0, 100)
    assert partitions.seen(tmp_path) == [111, 13], "what others write does not wait for the next batch"


def test_a_batch_that_ends_while_the_broker_is_asked_is_asked_for_again(
    partitions: Partitions, batches: WrittenBatches, tmp_path: Path
) -> None:
    steps = iter([batches.begin, lambda: (partitions.commit(1, 4), batches.end())])
    partitions.commit(0, 3)
    assert partitions.seen(tmp_path, lambda: next(steps, lambda: None)()) == [8, 9]


def test_what_the_broker_has_not_marked_yet_is_waited_for(
    partitions: Partitions, batches: WrittenBatches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches.begin()
    partitions.commit(0, 3)
    partitions.committed[1] += 4
    batches.end()
    looks = iter([lambda: None, lambda: partitions.commit(1, 0)])
    assert partitions.seen(tmp_path, lambda: next(looks, lambda: None)()) == [8, 9]
    monkeypatch.setattr(whole_batches, "_PATIENCE_S", 0)
    partitions.shown[1] = 5
    assert partitions.seen(tmp_path) == [8, 5], "it may be an open transaction of others"


def test_a_batch_that_an_earlier_process_began_hides_all(
    partitions: Partitions, batches: WrittenBatches, tmp_path: Path
) -> None:
    batches.is_interrupted = True
    batches.start()
    assert partitions.seen(tmp_path) == [0, 0]
    batches.begin()
    assert partitions.seen(tmp_path) == [0, 0]
    batches.end()
    assert partitions.seen(tmp_path) == [5, 5]
    batches.begin()
    partitions.commit(0, 3)
    batches.leave()
    assert partitions.seen(tmp_path) == [8, 5]


def test_topics_that_nobody_watches_cost_nothing(tmp_path: Path) -> None:
    offsets: Any = SimpleNamespace()
    batches = WrittenBatches(folder=tmp_path, query="Q", topics=frozenset({"t"}), offsets=offsets)
    batches.begin()
    batches.end()
    assert [*tmp_path.iterdir()] == []
