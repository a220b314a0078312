from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from kestrel_sql.operators.operator import Scope
from kestrel_sql.spark.io.blobs import in_chunks, read_rows
from kestrel_sql.spark.pipeline.pipeline import pages_of
from kestrel_sql.spark.state.hashing import hash_row
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.packing import MOST_PLACED, pack_batches, page_batches, task_page, task_pages
from kestrel_sql.topics.partitioner import partition_of
from tests.engine.spark.state.level_samples import SCHEMA, Summing, batch, handle, level, row
from tests.engine.spark.state_tools.fabricated import PAGE_KEY


def packed(
    chosen: Level, rows: list[dict[str, Any]], partitions: int = 1, *, has_task_pages: bool = False, placed: int = 0
) -> list[tuple[int, int, list[dict[str, Any]]]]:
    """The rows that the level reads, with their task and page."""
    given = batch(rows, *chosen.inputs().values(), handle(9, 0), pages=("page", "old_page"))
    found = [
        each
        for done in pack_batches(chosen, [partitions], has_task_pages=has_task_pages, placed=placed)(iter([given]))
        for each in done.to_pylist()
    ]
    return [(e["task"], e["page"], read_rows(e["rows"], chosen.read()).to_pylist()) for e in found if not e["passing"]]


def keyed(ordinal: int, key: str | None, **more: Any) -> dict[str, Any]:
    found = None if key is None else {"K": key}
    return row(ordinal, r1={"k": found, "v": {"A": ordinal}}, page=0, old_page=0, **more)


def paged(chosen: Level, rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """The page of the key of each row, and that of its previous key."""
    (found,) = page_batches(chosen, 64)(iter([batch(rows)]))
    return [(each["page"], each["old_page"]) for each in found.to_pylist()]


def test_rows_go_to_their_pages_in_the_order_in_which_they_came() -> None:
    rows = [{**keyed(ordinal, "x"), "page": ordinal % 3} for ordinal in range(7)]
    found = {page: [r["ordinal"] for r in each] for _, page, each in packed(level(), rows)}
    assert found == {0: [[0], [3], [6]], 1: [[1], [4]], 2: [[2], [5]]}


def test_a_task_is_the_partition_that_the_record_came_from() -> None:
    found = packed(level(), [keyed(ordinal, "x", task=ordinal % 2) for ordinal in range(4)], partitions=2)
    assert {task: [r["ordinal"] for r in each] for task, _, each in found} == {0: [[0], [2]], 1: [[1], [3]]}


def test_there_is_one_task_where_topics_have_one_partition() -> None:
    assert [task for task, _, _ in packed(level(), [keyed(ordinal, "x", task=ordinal) for ordinal in range(4)])] == [0]


def test_after_a_change_of_key_the_task_is_that_of_the_new_key() -> None:
    keys = [f"key {number}" for number in range(40)]
    found = packed(level(rekeyed=True), [keyed(ordinal, key, task=5) for ordinal, key in enumerate(keys)], partitions=6)
    tasks = {r["r1"]["k"]["K"]: task for task, _, each in found for r in each}
    assert tasks == {key: partition_of(key.encode(), 6) for key in keys}
    assert len(set(tasks.values())) == 6


def test_a_row_without_a_key_stays_in_its_task() -> None:
    assert [task for task, _, _ in packed(level(rekeyed=True), [keyed(1, None, task=5)], partitions=6)] == [5]


def test_an_operator_over_all_keys_of_a_query_has_task_0() -> None:
    class Everything(Summing):
        scope: ClassVar[Scope] = Scope.QUERY

    chosen = level(Everything(), rekeyed=True)
    assert [
        task
        for task, _, _ in packed(
            chosen, [keyed(ordinal, str(ordinal), task=ordinal) for ordinal in range(4)], partitions=4
        )
    ] == [0]
    assert paged(chosen, [keyed(1, "x")]) == [(0, 0)]


def test_the_page_is_a_hash_of_the_key() -> None:
    assert paged(level(), [keyed(1, "x"), row(2, 9)]) == [(hash_row(("x",), SCHEMA.key) % 64, 0), (0, 0)]


def moving(ordinal: int, new: str | None, old: str | None, pages: tuple[int, int]) -> dict[str, Any]:
    struct = {
        "k": None if new is None else {"K": new},
        "v": {"A": ordinal},
        "o": {"A": -ordinal},
        "ok": None if old is None else {"K": old},
    }
    return row(ordinal, r1=struct, page=pages[0], old_page=pages[1])


@pytest.fixture
def table() -> Level:
    return level(has_old=True, has_old_key=True)


def test_a_row_that_leaves_a_group_of_another_page_becomes_two_in_order(table: Level) -> None:
    found = packed(table, [moving(1, "a", "b", (3, 5)), moving(2, "a", "b", (3, 3))])
    by_page = {
        number: [r for _, page, each in found for r in each if page == number]
        for number in {page for _, page, _ in found}
    }
    assert sorted(by_page) == [3, 5]
    (left,) = by_page[5]
    assert (left["ordinal"], left["r1"]) == ([1, 0], {"k": None, "v": None, "o": {"A": -1}, "ok": {"K": "b"}})
    stays, entered = sorted(by_page[3], key=lambda r: -r["ordinal"][0])
    assert (entered["ordinal"], entered["r1"]) == ([1, 1], {"k": {"K": "a"}, "v": {"A": 1}, "o": None, "ok": None})
    assert (stays["ordinal"], stays["r1"]["ok"]) == ([2], {"K": "b"})


def test_a_row_that_only_leaves_has_the_page_of_its_old_key(table: Level) -> None:
    assert [page for _, page, _ in packed(table, [moving(1, None, "b", (0, 5))])] == [5]


def test_types_are_those_of_the_level() -> None:
    narrow = batch([keyed(1, "x")], pages=("page",))
    at = narrow.schema.get_field_index("r1")
    struct = pa.array(
        [{"k": {"K": "x"}, "v": {"A": 1}}],
        pa.struct([("k", pa.struct([("K", pa.string())])), ("v", pa.struct([("A", pa.int16())]))]),
    )
    (done,) = pack_batches(level(), [1])(iter([narrow.set_column(at, "r1", struct)]))
    assert read_rows(done.column("rows")[0].as_py(), level().read()).to_pylist()[0]["r1"]["v"] == {"A": 1}


def test_small_batches_are_joined() -> None:
    small = [pa.record_batch({"a": [number]}) for number in range(5)]
    (joined,) = in_chunks(iter([small[0].slice(0, 0), *small]))
    assert joined.column("a").to_pylist() == [0, 1, 2, 3, 4]
    assert list(in_chunks(iter([]))) == []


def test_pages_share_the_keys_evenly_enough() -> None:
    tasks = Counter(partition_of(str(number).encode(), 8) for number in range(4000))
    assert max(tasks.values()) < 2 * min(tasks.values())


class AcrossKeys(Summing):
    scope: ClassVar[Scope] = Scope.TASK


@pytest.mark.parametrize(
    ("has_task_pages", "page"), [(True, task_page), (False, lambda task: 0)], ids=["task page", "first page"]
)
def test_an_operator_over_all_keys_of_a_task_has_one_page(has_task_pages: bool, page: Callable[[int], int]) -> None:
    found = packed(
        level(AcrossKeys()),
        [keyed(ordinal, str(ordinal), task=ordinal % 3) for ordinal in range(9)],
        3,
        has_task_pages=has_task_pages,
    )
    assert {task: (number, len(rows)) for task, number, rows in found} == {task: (page(task), 3) for task in range(3)}


def test_task_pages_do_not_change_the_pages_of_keys() -> None:
    rows = [{**keyed(ordinal, "x", task=ordinal % 2), "page": 7} for ordinal in range(4)]
    assert {(task, page) for task, page, _ in packed(level(), rows, 2, has_task_pages=True)} == {(0, 7), (1, 7)}


@pytest.mark.parametrize("partitions", [2, 3, 8, 16])
def test_all_pages_of_a_task_have_one_partition_if_they_are_placed(partitions: int) -> None:
    rows = [{**keyed(ordinal, "x", task=ordinal % 5), "page": ordinal // 5} for ordinal in range(40)]
    found = [(task, page) for task, page, _ in packed(level(), rows, 5, has_task_pages=True, placed=8)]
    assert len({*found}) == 40
    assert {(task, hash_row((task, page), PAGE_KEY) % partitions) for task, page in found} == {
        (task, task % partitions) for task in range(5)
    }
    assert {(task, task_page(task)) for task in range(5)} <= {*found}


def test_there_are_as_many_placed_pages_as_a_task_may_have() -> None:
    assert all(len({*task_pages(task, MOST_PLACED)}) == MOST_PLACED for task in (0, 1, 719, 12_345))


def test_tasks_share_the_pages_of_a_query() -> None:
    assert [pages_of(tasks) for tasks in (1, 2, 3, 8, 12)] == [32, 16, 10, 8, 8]


@pytest.mark.parametrize("partitions", [2, 3, 4, 5, 6, 8, 10, 12, 16])
def test_task_pages_have_different_partitions(partitions: int) -> None:
    keys = [(task, task_page(task)) for task in range(partitions)]
    assert [hash_row(key, PAGE_KEY) % partitions for key in keys] == list(range(partitions))
