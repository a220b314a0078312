from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kestrel_sql.kafka.client.client_cache import Kept
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.sink import task
from kestrel_sql.kafka.sink.task import Job, Share
from kestrel_sql.kafka.sink.transaction import Layout, Mark
from kestrel_sql.spark.io.topics import ARROW_OUTPUT

ROW = {"q": 0, "ordinal": [0], "topic": "a", "key": b"k", "value": b"v", "timestamp": 1, "headers": [], "partition": 0}


class Writer:
    """A writer without a broker."""

    opened: list[Writer]
    committed: Mark | None = None
    fenced: list[Writer]

    def __init__(self, config: KafkaConfig, query: str, slot: int, topics: frozenset[str], **_: Any) -> None:
        self.last: int | None = None
        self.opened.append(self)

    def serves(self, topics: frozenset[str]) -> bool:
        return True

    def mark(self, position: Position) -> Mark | None:
        return self.committed

    def begin(self, position: Position, batch: int, metadata: str) -> None:
        if self in self.fenced:
            raise KafkaException(KafkaError(KafkaError._FENCED))

    def send(self, batch: pa.RecordBatch) -> None:
        pass

    def commit(self, batch: int) -> None:
        self.last = batch

    def abort(self) -> None:
        pass


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    found: list[Writer] = []
    monkeypatch.setattr(Writer, "opened", found, raising=False)
    monkeypatch.setattr(Writer, "fenced", [], raising=False)
    monkeypatch.setattr(task, "Writer", Writer)
    monkeypatch.setattr(task, "_writers", Kept(32))
    return found


def report_of(batch: int, owners: Mapping[int, str], slot: int = 0) -> dict[str, Any]:
    job = Job(KafkaConfig(servers="b:1"), "q", batch, 1, Layout(2, {"a": 1}), True, owners)
    rows = pa.RecordBatch.from_pylist([ROW], schema=ARROW_OUTPUT.append(pa.field("partition", pa.int32())))
    (report,) = (row for made in Share(job, slot).write(iter([rows])) for row in made.to_pylist())
    return report


def write(batch: int, owners: Mapping[int, str], slot: int = 0) -> dict[int, str]:
    """Write a batch; returns the owners afterwards, as the driver keeps them."""
    report = report_of(batch, owners, slot)
    assert (report["records"], report["message"]) == (1, None)
    return {**owners, report["slot"]: report["worker"]}


def test_a_writer_stays_open_from_batch_to_batch(opened: list[Writer]) -> None:
    write(2, write(1, write(0, {})))
    assert len(opened) == 1


def test_a_writer_is_not_used_again_when_another_worker_has_written_its_slot(opened: list[Writer]) -> None:
    write(2, {**write(0, {}), 0: "another-1"})
    assert len(opened) == 2


def test_writers_that_others_have_fenced_are_closed(opened: list[Writer]) -> None:
    owners = write(0, write(0, {}), slot=1)
    write(1, {**owners, 0: "another-1"}, slot=1)
    assert len(opened) == 2
    assert list(task._writers) == [("q", 1)]


def test_a_writer_that_was_fenced_meanwhile_is_replaced(opened: list[Writer]) -> None:
    owners = write(0, {})
    Writer.fenced.append(opened[0])
    write(1, owners)
    assert len(opened) == 2


@pytest.mark.parametrize("committed", [Mark(5, 2, 2, {}), Mark(6, 1, 2, {})], ids=["newer run", "newer batch"])
def test_a_task_that_comes_late_writes_nothing(
    opened: list[Writer], monkeypatch: pytest.MonkeyPatch, committed: Mark
) -> None:
    """The driver has looked before the task began; another run may have written since."""
    monkeypatch.setattr(Writer, "committed", committed)
    report = report_of(5, {})
    assert report["what"] == task.FAILED
    assert "the latest" in report["message"]
