from __future__ import annotations

from kestrel_sql.operators.tables.materialise import Materialise
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, final_state, key_bytes, replay


def test_every_record_is_passed_on_with_the_row_it_replaces() -> None:
    rows = [
        Row(0, (1,), ("a",), 5),
        Row(0, (1,), ("a",), 3),
        Row(0, (1,), ("b",), 4),
        Row(0, (1,), None, 9),
        Row(0, (1,), None, 10),
    ]
    outputs = replay(Materialise(key_bytes=key_bytes), rows)
    assert brief(outputs) == [[(1, ("a",), 5)], [(1, ("a",), 3)], [(1, ("b",), 4)], [(1, None, 9)], [(1, None, 10)]]
    assert [row[0].old for row in outputs] == [None, ("a",), ("a",), ("b",), None]


def test_a_null_key_is_dropped_and_a_deleted_row_leaves_no_state() -> None:
    operator = Materialise(key_bytes=key_bytes)
    rows = [Row(0, None, ("a",), 1), Row(0, (1,), ("a",), 1), Row(0, (1,), None, 2)]
    assert brief(replay(operator, rows))[0] == []
    assert final_state(operator, rows) == {"rows": {}}


def test_each_window_of_a_key_is_a_separate_row() -> None:
    rows = [
        Row(0, (1,), ("a",), 1, window=(0, 10)),
        Row(0, (1,), ("b",), 2, window=(10, 20)),
        Row(0, (1,), ("c",), 3, window=(0, 10)),
    ]
    outputs = replay(Materialise(key_bytes=key_bytes), rows)
    assert [row[0].old for row in outputs] == [None, None, ("a",)]
    assert outputs[2][0].window == (0, 10)


def test_an_old_row_shows_the_time_of_the_record_that_replaces_it() -> None:
    operator = Materialise(key_bytes=key_bytes, rowtime=1)
    first, second, third = replay(
        operator, [Row(0, (1,), ("a", 5), 5), Row(0, (1,), ("b", 9), 9), Row(0, (1,), None, 12)]
    )
    assert (first[0].old, second[0].old, third[0].old) == (None, ("a", 9), ("b", 12))
