from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.sql.nodes.statements import JoinType
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, key_bytes, replay


def join(join_type: JoinType) -> TableJoin:
    return TableJoin(join_type=join_type, key_bytes=key_bytes)


def left(value: Any, timestamp: int, key: Any = "k") -> Row:
    return Row(0, None if key is None else (key,), None if value is None else (value,), timestamp)


def right(value: Any, timestamp: int, key: Any = "k") -> Row:
    return Row(1, None if key is None else (key,), None if value is None else (value,), timestamp)


def values(join_type: JoinType, *rows: Row) -> list[list[tuple[Any, int]]]:
    return [[(output.value, output.timestamp) for output in row] for row in replay(join(join_type), rows)]


@pytest.mark.rules("O14.5")
def test_inner_needs_both_sides_and_repeats_identical_rows() -> None:
    rows = (left("l", 5), right("r", 3), right("r", 9), left("m", 4), right(None, 10), left("n", 11), right(None, 12))
    assert values(JoinType.INNER, *rows) == [
        [],
        [(("l", "r"), 5)],
        [(("l", "r"), 9)],
        [(("m", "r"), 9)],
        [(None, 10)],
        [],
        [(None, 12)],
    ]


def test_inner_emits_a_tombstone_when_an_unknown_row_is_deleted() -> None:
    assert values(JoinType.INNER, right("r", 3), left(None, 1)) == [[], [(None, 3)]]


def test_left_pads_and_follows_the_left_row() -> None:
    rows = (
        left(None, 0),
        right("r", 1),
        left("l", 2),
        right(None, 3),
        right(None, 4),
        left(None, 5),
        left(None, 6),
        right("r", 7),
    )
    assert values(JoinType.LEFT, *rows) == [
        [],
        [],
        [(("l", "r"), 2)],
        [(("l", None), 3)],
        [(("l", None), 4)],
        [(None, 5)],
        [],
        [],
    ]


@pytest.mark.rules("O14.2")
def test_left_delete_of_an_unknown_row_gives_a_tombstone_if_the_right_row_exists() -> None:
    assert values(JoinType.LEFT, right("r", 3), left(None, 5)) == [[], [(None, 5)]]


def test_right_mirrors_left_with_the_right_columns_first() -> None:
    rows = (left("l", 1), right("r", 2), left(None, 3), right(None, 4), right(None, 5))
    assert values(JoinType.RIGHT, *rows) == [[], [(("r", "l"), 2)], [(("r", None), 3)], [(None, 4)], []]


def test_outer_keeps_either_side() -> None:
    rows = (left(None, 0), left("l", 1), right("r", 2), left(None, 3), left(None, 4), right(None, 5), right(None, 6))
    assert values(JoinType.OUTER, *rows) == [
        [],
        [(("l", None), 1)],
        [(("l", "r"), 2)],
        [((None, "r"), 3)],
        [((None, "r"), 4)],
        [(None, 5)],
        [],
    ]


def test_null_keys_are_dropped() -> None:
    assert values(JoinType.OUTER, left("l", 0, key=None)) == [[]]


def test_old_joins_the_replaced_row_with_the_current_other_one() -> None:
    outputs = replay(join(JoinType.LEFT), [left("l", 0), left("m", 1), right("r", 2), right("s", 3), left(None, 4)])
    assert [row[0].old for row in outputs] == [None, ("l", None), ("m", None), ("m", "r"), ("m", "s")]
    inner = replay(join(JoinType.INNER), [left("l", 0), right("r", 2), right(None, 3)])
    assert [row[0].old for row in inner[1:]] == [None, ("l", "r")]


def test_a_tracked_old_row_counts_although_it_was_never_stored() -> None:
    row = Row(0, ("k",), None, 1, old=("l",))
    assert brief(replay(join(JoinType.LEFT), [row])) == [[("k", None, 1)]]
