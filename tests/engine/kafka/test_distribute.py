from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from kestrel_sql.kafka.sink import distribute as spread
from kestrel_sql.kafka.sink.distribute import distribute_batches, merged
from kestrel_sql.kafka.sink.transaction import Layout
from kestrel_sql.spark.io.topics import ARROW_OUTPUT
from kestrel_sql.topics.partitioner import partition_of

LAYOUT = Layout(2, {"a": 4, "b": 1})


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=ARROW_OUTPUT)


def record(ordinal: list[int], key: bytes | None, topic: str = "a") -> dict[str, Any]:
    return {
        "q": 0,
        "ordinal": ordinal,
        "topic": topic,
        "key": key,
        "value": str(ordinal).encode(),
        "timestamp": 1,
        "headers": [],
    }


def through(tasks: list[list[pa.RecordBatch]], layout: Layout = LAYOUT) -> dict[int, list[dict[str, Any]]]:
    """The rows of each writer; blobs are sorted by their first ordinal, as in Spark."""
    blobs = [
        row for batches in tasks for made in distribute_batches(layout, {})(iter(batches)) for row in made.to_pylist()
    ]
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for slot in {row["slot"] for row in blobs}:
        own = sorted((row for row in blobs if row["slot"] == slot), key=lambda row: row["first"])
        given = [pa.RecordBatch.from_pylist([row], schema=spread._DISTRIBUTED) for row in own]
        found[slot] = [row for made in merged(iter(given)) for row in made.to_pylist()]
    return found


@pytest.mark.parametrize("held", [1, 10, 1 << 16])
@pytest.mark.parametrize("seed", range(5))
def test_writers_get_their_partitions_in_the_order_of_ordinals(
    seed: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "_HELD_ROWS", held)
    monkeypatch.setattr(spread, "_PIECE_ROWS", 7)
    random_ = random.Random(seed)
    ordinals = [[at // 3, *([at % 3, 0] if at % 2 else [at % 3])] for at in range(300)]
    rows = [record(ordinal, str(random_.randrange(20)).encode(), random_.choice("ab")) for ordinal in ordinals]
    if seed % 2:
        random_.shuffle(rows)
    tasks = [[batch(part[at : at + 9]) for at in range(0, len(part), 9)] for part in (rows[::2], rows[1::2])]
    found = through(tasks)
    written = [row for rows_ in found.values() for row in rows_]
    assert sorted(row["ordinal"] for row in written) == sorted(row["ordinal"] for row in rows)
    owners: dict[tuple[str, int], set[int]] = defaultdict(set)
    for slot, own in found.items():
        assert [row["ordinal"] for row in own] == sorted(row["ordinal"] for row in own)
        for row in own:
            assert row["partition"] == partition_of(row["key"], LAYOUT.partitions[row["topic"]])
            owners[row["topic"], row["partition"]].add(slot)
    assert all(len(slots) == 1 for slots in owners.values())
    assert len({slot for (topic, _), slots in owners.items() if topic == "a" for slot in slots}) == 2


@pytest.mark.parametrize("before", [Layout(2, {}), Layout(3, {"a": 9, "b": 2}), LAYOUT])
def test_records_of_another_layout_are_distributed_again(before: Layout) -> None:
    rows = batch([record([at, 0], str(at).encode(), "ab"[at % 2]) for at in range(50)])
    assert through([[*distribute_batches(before, {})(iter([rows]))]]) == through([[rows]])


def test_layouts_are_compared_by_the_topics_that_are_written() -> None:
    more = Layout(2, {"a": 4, "b": 1, "c": 7})
    assert more.distributes_as(LAYOUT, ["a", "b"])
    assert not more.distributes_as(LAYOUT, ["a", "c"])
    assert not more.distributes_as(replace(more, slots=3), ["a"])
    assert not more.distributes_as(replace(more, partitions={"a": 5}), ["a"])
    assert not more.distributes_as(None, [])
    assert not more.distributes_as(LAYOUT, None)
    assert more.distributes_as(replace(more), None)


def test_a_log_entry_comes_before_the_record_of_its_row() -> None:
    entry = {"q": 0, "ordinal": [1, 0], "kind": 1, "message": "m"}
    (own,) = through(
        [[batch([entry, record([1, 0], b"k")]), batch([record([0, 0], b"k")])]], Layout(1, {"a": 1})
    ).values()
    assert [(row["ordinal"], row["kind"], row["partition"]) for row in own] == [
        ([0, 0], None, 0),
        ([1, 0], 1, None),
        ([1, 0], None, 0),
    ]


def test_nothing_becomes_nothing() -> None:
    assert through([[batch([])], []]) == {}
    assert list(merged(iter([]))) == []
