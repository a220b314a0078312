from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.functions.library.aggregates.by_offset import latest_by_offset, latest_n_by_offset
from kestrel_sql.functions.library.aggregates.collections import collect_list
from kestrel_sql.functions.library.aggregates.sums import count
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.types.sql_types import INTEGER
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, call_of, final_state, key_bytes, replay


def sessions(
    gap: int, grace: int, final: bool = False, retention: int | None = None, calls: Any = None
) -> SessionWindowAggregate:
    return SessionWindowAggregate(
        key_bytes=key_bytes,
        columns=(0,),
        calls=calls or ((call_of(count), ()),),
        gap_ms=gap,
        grace_ms=grace,
        retention_ms=gap + grace if retention is None else retention,
        final=final,
    )


def at(*timestamps: int, key: Any = "k") -> list[Row]:
    return [Row(0, (key,), (timestamp,), timestamp) for timestamp in timestamps]


def windows(outputs: list[list[Any]]) -> list[list[tuple[Any, ...]]]:
    """Window and count (None for a tombstone) of each output."""
    return [[(*output.window, output.value and output.value[1]) for output in row] for row in outputs]


def test_a_session_grows_by_a_tombstone_and_a_new_result() -> None:
    outputs = replay(sessions(10, 1000), at(0, 10, 5))
    assert brief(outputs) == [
        [("k", (0, 1, 0, 0), 0, (0, 0))],
        [("k", None, 0, (0, 0)), ("k", (10, 2, 0, 10), 10, (0, 10))],
        [("k", None, 10, (0, 10)), ("k", (5, 3, 0, 10), 10, (0, 10))],
    ]
    assert outputs[1][0].old == (0, 1, 0, 0)
    assert outputs[1][1].old is None


def test_the_same_point_again_gives_no_tombstone() -> None:
    assert windows(replay(sessions(10, 1000), at(7, 7))) == [[(7, 7, 1)], [(7, 7, 2)]]


def test_a_row_between_two_sessions_merges_them_in_order_of_their_ends() -> None:
    calls = ((call_of(collect_list, INTEGER), (0,)),)
    outputs = replay(sessions(10, 1000, calls=calls), at(30, 12, 21))
    assert windows(outputs)[2] == [(12, 12, None), (30, 30, None), (12, 30, [12, 30, 21])]


def test_rows_further_apart_than_the_gap_stay_apart() -> None:
    assert windows(replay(sessions(10, 1000), at(0, 11))) == [[(0, 0, 1)], [(11, 11, 1)]]


def test_keys_have_their_own_sessions() -> None:
    assert windows(replay(sessions(10, 1000), [*at(0), *at(1, key="j")])) == [[(0, 0, 1)], [(1, 1, 1)]]


def test_a_row_is_late_if_its_session_would_end_before_the_close() -> None:
    # stream time 100, close = 100 - 5 - 10 = 85
    assert windows(replay(sessions(10, 5), at(100, 84, 85))) == [[(100, 100, 1)], [], [(85, 85, 1)]]


@pytest.mark.rules("O8.8")
def test_sessions_that_ended_gap_and_grace_ago_are_not_found() -> None:
    # newest end 115, so ends up to 100 have expired
    outputs = replay(sessions(10, 5), [*at(100), *at(115, key="j"), *at(105)])
    assert windows(outputs)[2] == [(105, 105, 1)]


def test_expired_sessions_leave_no_state_and_a_busy_session_one_entry() -> None:
    state = final_state(sessions(10, 5), [*at(1, 2, 3, 3, 3, 3), *at(100, 100, 100, key="j")])
    assert list(state["sessions"]) == [key_bytes(("j",))]
    assert len(state["ends"]) == 1


@pytest.mark.rules("O8.9")
def test_non_aggregate_columns_are_those_of_the_current_row() -> None:
    assert replay(sessions(10, 1000), at(0, 5))[1][1].value == (5, 2, 0, 5)


def test_latest_by_offset_goes_by_processing_and_its_list_keeps_the_lowest_numbers_on_merge() -> None:
    calls = ((call_of(latest_by_offset, INTEGER), (0,)), (call_of(latest_n_by_offset, INTEGER, literals=(2,)), (0,)))
    outputs = replay(sessions(10, 1000, calls=calls), at(30, 12, 40, 21))
    # processed 30, 12, 40: the merge of [30, 40] and [12] keeps numbers 1 and 2, then 21 pushes the older out
    assert outputs[3][-1].value == (21, 21, [12, 21], 12, 40)


def test_final_emits_a_session_when_no_row_can_reach_it() -> None:
    # at 20 close is 5 - 0, at 21 it is past the session's end
    outputs = replay(sessions(15, 0, final=True), [*at(0, 5), *at(20, key="j"), *at(21, key="j"), *at(22, key="j")])
    assert brief(outputs) == [[], [], [], [("k", (5, 2, 0, 5), 5, (0, 5))], []]


def test_final_orders_by_end_then_start_then_key() -> None:
    rows = [*at(4, key="c"), *at(3, key="b"), *at(3, key="a"), *at(50, key="z")]
    assert [output.key for output in replay(sessions(10, 0, final=True), rows)[3]] == [("a",), ("b",), ("c",)]


@pytest.mark.rules("O9.5")
def test_final_loses_a_session_whose_segment_has_expired() -> None:
    # segments of 60 s: the session's is 0; at 130 s with 10 s of retention the oldest readable one is 2
    assert windows(replay(sessions(10_000, 0, final=True), [*at(0), *at(130_000, key="j")])) == [[], []]
    kept = replay(sessions(10_000, 0, final=True, retention=130_000), [*at(0), *at(130_000, key="j")])
    assert windows(kept) == [[], [(0, 0, 1)]]


def test_a_session_that_waits_for_final_at_the_edge_is_overwritten_by_an_equal_one() -> None:
    # newest end 20, gap 15: the session at 5 is no longer found, but a row at 5 is not yet late
    outputs = replay(sessions(15, 0, final=True), [*at(5, 5), *at(20, key="j"), *at(5), *at(21, key="j")])
    assert windows(outputs)[-1] == [(5, 5, 1)]
