from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.late_rows import take
from kestrel_sql.sql.nodes.statements import JoinType
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, final_state, key_bytes, replay

DAY = 24 * 60 * 60 * 1000


def join(join_type: JoinType, before: int, after: int, grace: int | None = None, **more: Any) -> StreamStreamJoin:
    return StreamStreamJoin(
        join_type=join_type,
        key_bytes=key_bytes,
        before_ms=before,
        after_ms=after,
        grace_ms=grace,
        **more,
    )


def left(value: Any, timestamp: int, key: Any = "k", window: Any = None) -> Row:
    return Row(0, None if key is None else (key,), None if value is None else (value,), timestamp, window=window)


def right(value: Any, timestamp: int, key: Any = "k", window: Any = None) -> Row:
    return Row(1, None if key is None else (key,), None if value is None else (value,), timestamp, window=window)


def values(outputs: list[list[Any]]) -> list[list[tuple[Any, int]]]:
    return [[(output.value, output.timestamp) for output in row] for row in outputs]


def test_bounds_are_inclusive_and_matches_come_by_time_then_arrival() -> None:
    rows = [right("r9", 9), right("r20", 20), right("r15", 15), right("r15b", 15), right("r21", 21), left("l", 10)]
    assert values(replay(join(JoinType.INNER, 1, 10), rows))[-1] == [
        (("l", "r9"), 10),
        (("l", "r15"), 15),
        (("l", "r15b"), 15),
        (("l", "r20"), 20),
    ]


def test_the_bounds_of_a_right_row_are_mirrored() -> None:
    rows = [left("l0", 0), left("l11", 11), left("l12", 12), right("r", 10)]
    assert values(replay(join(JoinType.INNER, 1, 10), rows))[-1] == [(("l0", "r"), 10), (("l11", "r"), 11)]


def test_right_join_keeps_the_bounds_as_written_and_puts_right_columns_first() -> None:
    rows = [left("l9", 9), left("l20", 20), left("l21", 21), right("r", 10), right("alone", 100)]
    assert values(replay(join(JoinType.RIGHT, 1, 10), rows))[3:] == [
        [(("r", "l9"), 10), (("r", "l20"), 20)],
        [(("alone", None), 100)],
    ]


def test_without_grace_an_unmatched_row_is_emitted_at_once_and_matched_again_later() -> None:
    rows = [left("l", 0), right("r", 5), right("far", 50)]
    assert values(replay(join(JoinType.LEFT, 10, 10), rows)) == [[(("l", None), 0)], [(("l", "r"), 5)], []]
    assert values(replay(join(JoinType.OUTER, 10, 10), rows))[2] == [((None, "far"), 50)]


def test_without_grace_rows_are_kept_for_a_day() -> None:
    # retention is 10 + 10 + (24 h - 20) = 24 h: visible from newest - 24 h + 1 on
    rows = [left("old", 0), left("l1", 1), left("new", DAY), right("r", 1)]
    assert values(replay(join(JoinType.INNER, 10, 10), rows))[-1] == [(("l1", "r"), 1)]


def test_each_side_expires_by_its_own_time() -> None:
    rows = [left("l", 0), right("new", 10 * DAY), right("r", 0)]
    assert values(replay(join(JoinType.INNER, 10, 10), rows))[-1] == [(("l", "r"), 0)]


def test_a_row_older_than_the_retention_is_not_stored_but_looks_up() -> None:
    rows = [right("r", 0), left("new", 100), left("late", 0), right("r2", 0)]
    assert values(replay(join(JoinType.INNER, 1, 1, grace=5), rows))[2:] == [[(("late", "r"), 0)], []]


@pytest.mark.rules("E6.2", "O12.9")
def test_rows_that_are_not_stored_are_noted() -> None:
    rows = [left("new", 100), right("r", 0), left("edge", 95), left("late", 94), left(None, 1), left("late", 2)]
    state = final_state(join(JoinType.INNER, 1, 2, grace=3), rows)
    noted = take(state)
    assert noted is not None
    assert (noted.count, noted.timestamp, noted.window, noted.grace, noted.time) == (2, 94, (93, 96), 3, 100)
    assert noted.row == 3
    assert take(state) is None


def test_null_rows_and_null_keys() -> None:
    rows = [left(None, 0), left("l", 1, key=None), right("r", 2, key=None)]
    assert brief(replay(join(JoinType.INNER, 10, 10), rows)) == [[], [], []]
    assert brief(replay(join(JoinType.LEFT, 10, 10, grace=1), rows)) == [[], [(None, ("l", None), 1)], []]
    assert brief(replay(join(JoinType.OUTER, 10, 10), rows)) == [[], [(None, ("l", None), 1)], [(None, (None, "r"), 2)]]


@pytest.mark.rules("O12.4")
def test_a_null_row_moves_stream_time_but_does_not_flush() -> None:
    rows = [left("l", 0), left(None, 100), right("r", 100, key="j")]
    assert values(replay(join(JoinType.LEFT, 10, 10, grace=0), rows)) == [[], [], [(("l", None), 0)]]


@pytest.mark.rules("O12.7", "O12.11")
def test_grace_waits_for_stream_time_to_pass_the_bound_and_the_grace() -> None:
    rows = [left("l", 0), right("a", 15, key="j"), right("b", 16, key="j")]
    assert values(replay(join(JoinType.LEFT, 10, 10, grace=5), rows)) == [[], [], [(("l", None), 0)]]


def test_a_match_removes_all_pending_rows_of_that_time() -> None:
    rows = [left("l", 0), left("m", 0), right("r", 1), right("b", 100, key="j")]
    assert values(replay(join(JoinType.LEFT, 10, 10, grace=5), rows)) == [
        [],
        [],
        [(("l", "r"), 1), (("m", "r"), 1)],
        [],
    ]


def test_a_row_whose_time_is_over_on_arrival_is_emitted_at_once() -> None:
    rows = [right("r", 100, key="j"), left("over", 89), left("waits", 90)]
    assert values(replay(join(JoinType.LEFT, 10, 10, grace=50), rows)) == [[], [(("over", None), 89)], []]


def test_the_flush_goes_by_time_then_right_before_left_then_key_and_precedes_the_rows_own_results() -> None:
    rows = [
        left("b5", 5, key="b"),
        left("a5", 5, key="a"),
        right("c5", 5, key="c"),
        right("d4", 4, key="d"),
        left("now", 100, key="z"),
        right("mine", 100, key="z"),
    ]
    outputs = values(replay(join(JoinType.OUTER, 10, 10, grace=0), rows))
    assert outputs[4] == [((None, "d4"), 4), ((None, "c5"), 5), (("a5", None), 5), (("b5", None), 5)]
    assert outputs[5] == [(("now", "mine"), 100)]


def test_only_a_row_at_stream_time_flushes() -> None:
    operator = join(JoinType.LEFT, 10, 10, grace=0)
    rows = [left("l", 0), left(None, 100), left("late", 95, key="j"), left("now", 100, key="j")]
    assert values(replay(operator, rows)) == [[], [], [], [(("l", None), 0)]]


def test_sides_of_an_outer_join_wait_for_their_own_bounds() -> None:
    # left rows wait for after = 20, right rows for before = 5
    rows = [left("l", 0), right("r", 0, key="j"), left("t", 10, key="z"), left("u", 21, key="z")]
    assert values(replay(join(JoinType.OUTER, 5, 20, grace=0), rows)) == [
        [],
        [],
        [],
        [((None, "r"), 0), (("l", None), 0)],
    ]


def test_the_forward_bound_of_the_current_side_triggers_the_flush() -> None:
    rows = [left("l", 0), right("r", 0, key="j"), right("t", 10, key="z")]
    assert values(replay(join(JoinType.OUTER, 5, 20, grace=0), rows))[2] == [((None, "r"), 0)]


def test_right_join_holds_rows_until_the_window_closes() -> None:
    rows = [right("r", 0), left("x", 15, key="j"), left("y", 16, key="j")]
    assert values(replay(join(JoinType.RIGHT, 10, 10, grace=5), rows)) == [[], [], [(("r", None), 0)]]


WINDOWED = [
    left("a", 0, window=(0, 5)),
    left("b", 0, window=(0, 9)),
    left("c", 0, window=(5, 9)),
    right("r", 0, window=(0, 9)),
]


def test_session_windows_match_on_both_bounds() -> None:
    assert brief(replay(join(JoinType.INNER, 10, 10), WINDOWED))[-1] == [("k", ("b", "r"), 0, (0, 9))]


def test_time_windows_match_on_their_start_and_take_the_size_of_the_result() -> None:
    outputs = brief(replay(join(JoinType.INNER, 10, 10, window_size_ms=5), WINDOWED))
    assert outputs[-1] == [("k", ("a", "r"), 0, (0, 5)), ("k", ("b", "r"), 0, (0, 5))]


def test_an_unmatched_windowed_row_keeps_its_window_while_it_waits() -> None:
    rows = [left("l", 0, window=(0, 5)), right("r", 100, window=(100, 105))]
    assert brief(replay(join(JoinType.LEFT, 1, 1, grace=0), rows))[1] == [("k", ("l", None), 0, (0, 5))]


def test_state_holds_no_more_than_the_retention() -> None:
    rows = [row for t in range(0, 1000, 10) for row in (left(t, t, key=str(t)), right(t, t, key=str(-t)))]
    state = final_state(join(JoinType.OUTER, 5, 5, grace=5), rows)
    assert len(state["left"]["rows"]) <= 2
    assert sum(len(waiting["rows"]) for waiting in state["pending"]) <= 4
    assert sum(len(waiting["ages"]) for waiting in state["pending"]) <= 4


def test_nothing_is_stored_when_the_retention_is_zero() -> None:
    assert values(replay(join(JoinType.INNER, 0, 0, grace=0), [left("l", 0), right("r", 0)])) == [[], []]
