from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from socket import gethostname
from tempfile import TemporaryDirectory
from threading import current_thread
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kestrel_sql.kafka.client.client_cache import Kept
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.sink import task
from kestrel_sql.kafka.sink.task import Job, Share
from kestrel_sql.kafka.sink.transaction import Layout, Mark, Marks
from kestrel_sql.spark.io.topics import ARROW_OUTPUT

ROW = {"q": 0, "ordinal": [0], "topic": "a", "key": b"k", "value": b"v", "timestamp": 1, "headers": [], "partition": 0}
ROWS = pa.RecordBatch.from_pylist([ROW], schema=ARROW_OUTPUT.append(pa.field("partition", pa.int32())))


class Writer:
    """A writer without a broker."""

    opened: list[Writer]
    marks: list[Mark | None]
    is_away: bool = False
    aborted: int = 0
    fenced: list[Writer]

    def __init__(self, config: KafkaConfig, query: str, slot: int, topics: frozenset[str], **_: Any) -> None:
        self.last: Marks = {}
        self.begun: list[Marks] = []
        self.opened.append(self)

    def serves(self, topics: frozenset[str]) -> bool:
        return True

    def committed(self, positions: Iterable[Position]) -> list[Mark | None]:
        return self.marks or [None for _ in positions]

    def begin(self, marks: Marks, metadata: str) -> None:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if self in self.fenced:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        self.begun.append(marks)

    def send(self, batch: pa.RecordBatch) -> None:
        pass

    def commit(self, marks: Marks) -> None:
        self.last = marks

    def abort(self) -> None:
        self.aborted += 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    found: list[Writer] = []
    monkeypatch.setattr(Writer, "opened", found, raising=False)
    monkeypatch.setattr(Writer, "fenced", [], raising=False)
    monkeypatch.setattr(Writer, "marks", [], raising=False)
    monkeypatch.setattr(task, "Writer", Writer)
    monkeypatch.setattr(task, "_writers", Kept(32))
    return found


def report_of(batch: int, owners: Mapping[int, str], slot: int = 0, reads: Marks | None = None) -> dict[str, Any]:
    job = Job(KafkaConfig(servers="b:1"), "q", batch, 1, Layout(2, {"a": 1}), True, owners)
    (made,) = Share(job, slot, reads or {}).write(iter([ROWS]))
    found: list[dict[str, Any]] = made.to_pylist()
    (report,) = found
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


def test_a_transaction_that_is_half_begun_is_aborted(opened: list[Writer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "is_away", True)
    assert report_of(0, {})["what"] == task.FAILED
    assert opened[0].aborted == 1
    assert not list(task._writers)


@pytest.mark.parametrize("committed", [Mark(5, 2, 2, {}), Mark(6, 1, 2, {})], ids=["newer run", "newer batch"])
def test_a_task_that_comes_late_writes_nothing(
    opened: list[Writer], monkeypatch: pytest.MonkeyPatch, committed: Mark
) -> None:
    """The driver has looked before the task began; another run may have written since."""
    monkeypatch.setattr(Writer, "marks", [committed])
    report = report_of(5, {})
    assert report["what"] == task.FAILED
    assert "the latest" in report["message"]


READS = {("s", 0): 10, ("s", 2): 7}


@pytest.mark.parametrize(
    ("committed", "writes"),
    [
        ([None, None], True),
        ([Mark(8, 1, 2, {}), Mark(5, 1, 2, {})], True),
        ([Mark(10, 1, 2, {}), Mark(7, 1, 2, {})], False),
        ([Mark(10, 0, 2, {}), Mark(7, 0, 2, {})], False),
    ],
    ids=["first batch", "next batch", "repeated batch", "repeated by the next run"],
)
def test_what_a_task_has_read_and_written_is_not_written_again(
    opened: list[Writer], monkeypatch: pytest.MonkeyPatch, committed: list[Mark | None], writes: bool
) -> None:
    monkeypatch.setattr(Writer, "marks", committed)
    report = report_of(5, {}, reads=READS)
    assert (report["what"], report["records"]) == (task.WROTE, 1)
    assert opened[0].begun == ([READS] if writes else [])


@pytest.mark.parametrize("committed", [Mark(10, 2, 2, {}), Mark(12, 1, 2, {})], ids=["newer run", "later offset"])
def test_a_task_writes_nothing_when_another_run_has_read_on(
    opened: list[Writer], monkeypatch: pytest.MonkeyPatch, committed: Mark
) -> None:
    monkeypatch.setattr(Writer, "marks", [committed, Mark(7, 1, 2, {})])
    report = report_of(5, {}, reads=READS)
    assert report["what"] == task.FAILED
    assert f"s, partition 0, holds up to offset {committed.number}" in report["message"]


@pytest.fixture
def other(opened: list[Writer], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of another worker of this machine, which are threads of this process."""

    def name() -> str:
        return f"{gethostname()}-{1 if is_listening or current_thread().name == task._SERVING else 2}"

    with TemporaryDirectory() as folder:
        monkeypatch.setenv(task._SOCKETS, folder)
        monkeypatch.setattr(task, "this_worker", name)
        is_listening = True
        task._listen.__wrapped__()
        is_listening = False
        yield f"{gethostname()}-1"


def test_records_go_to_the_worker_that_has_the_writer(opened: list[Writer], other: str) -> None:
    assert write(1, write(0, {0: other})) == {0: other}
    assert [each.begun for each in opened] == [[{("a", 0): 0}, {("a", 0): 1}]]


def test_a_failure_of_the_other_worker_is_reported(
    opened: list[Writer], other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer, "is_away", True)
    assert report_of(0, {0: other})["what"] == task.FAILED
    assert opened[0].aborted == 1


@pytest.mark.parametrize("given", [0, 1])
def test_nothing_is_committed_for_a_task_that_ends_before_it_has_passed_all(
    opened: list[Writer], other: str, given: int
) -> None:
    def records() -> Iterator[pa.RecordBatch]:
        yield from [ROWS] * given
        raise RuntimeError("the task has failed")

    share = Share(Job(KafkaConfig(servers="b:1"), "q", 0, 1, Layout(2, {"a": 1}), True, {0: other}), 0)
    with pytest.raises(RuntimeError):
        list(share.write(records()))
    time.sleep(0.1)
    assert all(each.last == {} for each in opened)


def test_a_task_fails_whose_other_worker_ends(
    opened: list[Writer], other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(self: Writer, marks: Marks) -> None:
        raise OSError

    monkeypatch.setattr(Writer, "commit", end)
    report = report_of(0, {0: other})
    assert (report["what"], report["message"]) == (task.FAILED, task._LOST)


def test_a_worker_that_has_ended_has_no_writer(opened: list[Writer], other: str) -> None:
    owners = write(0, {0: f"{gethostname()}-3"})
    assert owners == {0: f"{gethostname()}-2"}
    assert len(opened) == 1
