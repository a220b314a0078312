from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.sql.nodes.statements import JoinType
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, final_state, key_bytes, replay


def join(join_type: JoinType) -> ForeignKeyJoin:
    return ForeignKeyJoin(join_type=join_type, key_bytes=key_bytes, foreign_key_bytes=key_bytes)


def left(key: Any, value: Any, foreign: Any, timestamp: int) -> Row:
    return Row(0, (key,), None if value is None else (value,), timestamp, extra=None if foreign is None else (foreign,))


def right(key: Any, value: Any, timestamp: int) -> Row:
    return Row(1, None if key is None else (key,), None if value is None else (value,), timestamp)


def run(join_type: JoinType, *rows: Row) -> list[list[tuple[Any, ...]]]:
    return brief(replay(join(join_type), rows))


def test_inserts() -> None:
    rows = (right("x", "r", 50), left(1, "a", None, 1), left(2, "b", "x", 2), left(3, "c", "y", 3))
    assert run(JoinType.INNER, *rows) == [[], [], [(2, ("b", "r"), 50)], []]
    assert run(JoinType.LEFT, *rows) == [[], [(1, ("a", None), 1)], [(2, ("b", "r"), 50)], [(3, ("c", None), 3)]]


def test_updates_with_the_same_foreign_key() -> None:
    rows = (left(1, "a", "x", 1), left(1, "b", "x", 2), right("x", "r", 5), left(1, "b", "x", 6))
    assert run(JoinType.INNER, *rows) == [[], [], [(1, ("b", "r"), 5)], [(1, ("b", "r"), 6)]]
    assert run(JoinType.LEFT, *rows) == [
        [(1, ("a", None), 1)],
        [(1, ("b", None), 2)],
        [(1, ("b", "r"), 5)],
        [(1, ("b", "r"), 6)],
    ]


@pytest.mark.rules("O15.1")
def test_updates_that_change_the_foreign_key() -> None:
    rows = (
        right("x", "r", 1),
        right("y", "s", 2),
        left(1, "a", "x", 3),
        left(1, "b", "y", 4),
        left(1, "c", "z", 5),
        right("x", "t", 6),
    )
    assert run(JoinType.INNER, *rows)[2:] == [[(1, ("a", "r"), 3)], [(1, ("b", "s"), 4)], [(1, None, 5)], []]
    assert run(JoinType.LEFT, *rows)[2:] == [[(1, ("a", "r"), 3)], [(1, ("b", "s"), 4)], [(1, ("c", None), 5)], []]


@pytest.mark.rules("O15.1")
def test_updates_from_and_to_no_foreign_key() -> None:
    rows = (
        left(1, "a", None, 1),
        left(1, "b", None, 2),
        left(1, "c", "x", 3),
        left(1, "d", None, 4),
        left(1, "e", None, 5),
    )
    assert run(JoinType.INNER, *rows) == [[], [], [(1, None, 3)], [(1, None, 4)], []]
    assert run(JoinType.LEFT, *rows) == [
        [(1, (value, None), ts)] for value, ts in zip("abcde", range(1, 6), strict=True)
    ]


@pytest.mark.rules("O15.1")
def test_deletes() -> None:
    rows = (
        left(1, None, None, 1),
        left(1, "a", "x", 2),
        left(1, None, None, 3),
        left(2, "b", None, 4),
        left(2, None, None, 5),
    )
    assert run(JoinType.INNER, *rows) == [[], [], [(1, None, 3)], [], []]
    assert run(JoinType.LEFT, *rows) == [
        [],
        [(1, ("a", None), 2)],
        [(1, None, 3)],
        [(2, ("b", None), 4)],
        [(2, None, 5)],
    ]


def test_a_right_change_reaches_its_left_rows_in_key_order() -> None:
    rows = (
        left("c", 1, "x", 9),
        left("a", 2, "x", 9),
        left("b", 3, "y", 9),
        right("x", "r", 5),
        right("x", "r", 6),
        right("x", None, 7),
    )
    assert run(JoinType.INNER, *rows)[3:] == [
        [("a", (2, "r"), 5), ("c", (1, "r"), 5)],
        [("a", (2, "r"), 6), ("c", (1, "r"), 6)],
        [("a", None, 7), ("c", None, 7)],
    ]
    assert run(JoinType.LEFT, *rows)[5] == [("a", (2, None), 7), ("c", (1, None), 7)]


def test_null_keys_are_dropped() -> None:
    assert run(JoinType.LEFT, Row(0, None, ("a",), 1, extra=("x",)), right(None, "r", 1)) == [[], []]


def test_a_null_foreign_key_column_means_no_foreign_key() -> None:
    assert run(JoinType.INNER, Row(0, (1,), ("a",), 1, extra=(None,)), left(1, None, None, 2)) == [[], []]


def test_old_is_the_result_that_was_emitted_last() -> None:
    rows = (
        left(1, "a", "x", 1),
        right("x", "r", 2),
        right("x", "s", 3),
        left(1, "b", "x", 4),
        right("x", None, 5),
        left(1, None, None, 6),
    )
    inner = replay(join(JoinType.INNER), rows)
    assert [row[0].old for row in inner[1:]] == [None, ("a", "r"), ("a", "s"), ("b", "s"), None]
    outer = replay(join(JoinType.LEFT), rows)
    assert [row[0].old for row in outer] == [None, ("a", None), ("a", "r"), ("a", "s"), ("b", "s"), ("b", None)]


def test_deleted_rows_leave_no_state() -> None:
    rows = (left(1, "a", "x", 1), right("x", "r", 2), left(1, None, None, 3), right("x", None, 4))
    assert final_state(join(JoinType.LEFT), rows) == {"left": {}, "right": {}, "subscribers": {}}
