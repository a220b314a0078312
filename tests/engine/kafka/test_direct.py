"""What the driver makes of the tasks of a direct batch, without Spark and a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kestrel_sql.kafka import direct
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.direct import READ, DirectBatches, Work
from kestrel_sql.kafka.sink.sink import Delivery, Written
from kestrel_sql.kafka.sink.task import WROTE
from kestrel_sql.kafka.sink.transaction import Layout

NO_SPARK: Any = None


def collected(_: object, shares: Iterable[Any], function: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """What the tasks of Spark would give, in this process."""
    return [row for share in shares for row in function(share)]


@pytest.fixture
def batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectBatches:
    """The batches of a query whose log says that the first one spans five records of each of two partitions."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"s":{"0":5,"1":5}}')
    monkeypatch.setattr(direct, "layout_now", lambda *_: Layout(2, {"t": 1}))
    monkeypatch.setattr(direct, "fence", lambda *_: False)
    monkeypatch.setattr(direct, "_collected", collected)
    monkeypatch.setattr(direct, "_written", lambda _job, _work, _is_repeated, _stay, share: iter(written(*share)))
    return DirectBatches(
        query="q",
        config=KafkaConfig(servers="b:1"),
        delivery=Delivery.EXACTLY_ONCE,
        run=1,
        start={("s", 0): 0, ("s", 1): 3},
        folder=tmp_path,
        work=Work(b"", b"", {}, 2),
        limit=100,
    )


def written(slot: int, ranges: Iterable[Any], strays: int = 0) -> list[dict[str, Any]]:
    count = sum(each.end - each.start for each in ranges)
    wrote = {"what": WROTE, "records": count, "slot": slot, "worker": f"w{slot}"}
    return [
        wrote,
        {"what": READ, "records": count, "strays": strays, "reach": {each.position: each.end for each in ranges}},
    ]


def test_each_share_of_a_batch_is_written_once(batches: DirectBatches) -> None:
    assert batches.write(NO_SPARK, 0, 2) == (7, Written(records=7, entries=()))


@pytest.mark.parametrize(
    ("limit", "room", "stays"),
    # Of seven records in two partitions Spark may have left out two by rounding.
    [(100, 2, True), (9, 2, False), (10, 2, True), (100, 1, False), (8, 2, True), (1, 2, True)],
)
def test_tasks_stay_where_there_is_room_and_spark_would_plan_no_more(
    batches: DirectBatches, monkeypatch: pytest.MonkeyPatch, limit: int, room: int, stays: bool
) -> None:
    monkeypatch.setattr(direct, "AT_ONCE", 8)
    stayed: list[object] = []

    def write(_job: object, _work: object, _is_repeated: bool, stay: object, share: Any) -> Iterable[Any]:
        stayed.append(stay)
        return iter(written(*share))

    monkeypatch.setattr(direct, "_written", write)
    batches.limit = limit
    assert batches.write(NO_SPARK, 0, 2, room=room)[0] == 7
    assert stayed == [(direct.STAY_S, max(1, limit // 2)) if stays else None] * 2


def test_one_task_merges_all_partitions_once_a_key_lies_elsewhere(
    batches: DirectBatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(str(batches.folder)) / "offsets" / "1").write_text('v1\n{"batchWatermarkMs":0}\n{"s":{"0":9,"1":9}}')
    slots: list[int] = []

    def write(_job: object, _work: object, _is_repeated: bool, _stay: object, share: Any) -> Iterable[Any]:
        slots.append(share[0])
        return iter(written(share[0], share[1], share[0]))

    monkeypatch.setattr(direct, "_written", write)
    assert [batches.write(NO_SPARK, number, 2)[0] for number in range(2)] == [7, 8]
    assert slots == [0, 1, 0]


@pytest.mark.parametrize(
    ("partitions", "slot", "strays"),
    [([0, 2, 4], 0, 0), ([1, 3], 1, 0), ([0, 1, 2, None], 0, 1), ([0, 1], 1, 1)],
)
def test_keys_that_another_slot_would_have_written(partitions: list[int | None], slot: int, strays: int) -> None:
    columns = {"key": [b"k"] * len(partitions), "partition": pa.array(partitions, pa.int32())}
    assert direct.strays_in(pa.RecordBatch.from_pydict(columns), slot, 2, 2) == strays
    without = pa.RecordBatch.from_pydict({**columns, "key": pa.nulls(len(partitions), pa.binary())})
    assert direct.strays_in(without, slot, 2, 2) == 0
