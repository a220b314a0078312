from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.functions.library.aggregates.sums import count
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate, unpacked
from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import dump_state, load_state
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, call_of, final_state, key_bytes, process, replay


def windows(
    size: int, advance: int, grace: int, final: bool = False, retention: int | None = None, has_cache: bool = True
) -> TimeWindowAggregate:
    return TimeWindowAggregate(
        key_bytes=key_bytes,
        columns=(0,),
        calls=((call_of(count), ()),),
        size_ms=size,
        advance_ms=advance,
        grace_ms=grace,
        retention_ms=size + grace if retention is None else retention,
        final=final,
        has_cache=has_cache,
    )


def at(*timestamps: int, key: Any = "k") -> list[Row]:
    return [Row(0, (key,), ("x",), timestamp) for timestamp in timestamps]


def counted(outputs: list[list[Any]]) -> list[list[tuple[int, int]]]:
    """Window start and count of each output."""
    return [[(output.window[0], output.value[1]) for output in row] for row in outputs]


def test_a_tumbling_window_appends_its_bounds_and_keeps_the_latest_timestamp() -> None:
    outputs = replay(windows(10, 10, 100), at(3, 12, 1))
    assert brief(outputs) == [
        [("k", ("x", 1, 0, 10), 3, (0, 10))],
        [("k", ("x", 1, 10, 20), 12, (10, 20))],
        [("k", ("x", 2, 0, 10), 3, (0, 10))],
    ]
    assert outputs[2][0].old == ("x", 1, 0, 10)
    assert outputs[0][0].old == (None, 0, 0, 10)


@pytest.mark.rules("O8.1")
def test_hopping_windows_go_from_the_oldest_start_which_is_never_negative() -> None:
    outputs = replay(windows(30, 10, 100), at(0, 25, 30))
    assert counted(outputs) == [[(0, 1)], [(0, 2), (10, 1), (20, 1)], [(10, 2), (20, 2), (30, 1)]]


def test_an_advance_that_does_not_divide_the_size() -> None:
    outputs = replay(windows(10, 4, 100), at(13))
    assert counted(outputs) == [[(4, 1), (8, 1), (12, 1)]]


def test_a_window_takes_rows_until_its_end_is_grace_behind_stream_time() -> None:
    outputs = replay(windows(10, 10, 5), at(0, 14, 9, 15, 9, 10))
    assert counted(outputs) == [[(0, 1)], [(10, 1)], [(0, 2)], [(10, 2)], [], [(10, 3)]]


def test_a_late_row_may_reach_some_of_its_hopping_windows() -> None:
    outputs = replay(windows(10, 5, 0), at(14, 8))
    assert counted(outputs) == [[(5, 1), (10, 1)], [(5, 2)]]


def test_null_keys_and_rows_neither_count_nor_move_stream_time() -> None:
    rows = [*at(0), Row(0, None, ("x",), 1000), Row(0, ("k",), None, 1000), *at(1)]
    assert counted(replay(windows(10, 10, 0), rows)) == [[(0, 1)], [], [], [(0, 2)]]


def test_closed_windows_leave_no_state() -> None:
    state = final_state(windows(10, 10, 0), at(0, 10, 20, 100))
    assert list(state["windows"]) == [100]
    assert state["starts"] == [100]


def test_final_emits_a_window_once_it_is_closed() -> None:
    outputs = replay(windows(10, 10, 5, final=True), at(0, 9, 14, 15, 16))
    assert brief(outputs) == [[], [], [], [("k", ("x", 2, 0, 10), 9, (0, 10))], []]
    assert outputs[3][0].old is None


def test_final_orders_by_start_then_key() -> None:
    rows = [*at(1, key="b"), *at(1, key="a"), *at(12, key="a"), *at(20, key="c")]
    outputs = replay(windows(10, 10, 0, final=True, retention=100), rows)
    assert brief(outputs)[2:] == [
        [("a", ("x", 1, 0, 10), 1, (0, 10)), ("b", ("x", 1, 0, 10), 1, (0, 10))],
        [("a", ("x", 1, 10, 20), 12, (10, 20))],
    ]


@pytest.mark.rules("O9.1")
def test_final_emits_every_window_that_a_jump_in_time_closes() -> None:
    outputs = replay(windows(2, 2, 1, final=True), at(0, 1, 2, 500, 1))
    assert counted(outputs) == [[], [], [], [(0, 2), (2, 1)], []]


@pytest.mark.rules("O9.4")
def test_without_a_cache_final_loses_windows_that_have_left_the_store() -> None:
    outputs = replay(windows(2, 2, 1, final=True, has_cache=False), at(0, 1, 2, 5))
    assert counted(outputs) == [[], [], [], [(2, 1)]]


@pytest.mark.rules("O9.4")
def test_without_a_cache_a_longer_retention_keeps_more_windows_for_final() -> None:
    outputs = replay(windows(2, 2, 1, final=True, retention=100, has_cache=False), at(0, 1, 2, 5))
    assert counted(outputs) == [[], [], [], [(0, 2), (2, 1)]]


def test_a_late_row_closes_no_windows() -> None:
    outputs = replay(windows(10, 10, 0, final=True, retention=100), at(5, 25, 3, 22))
    assert counted(outputs) == [[], [(0, 1)], [], []]


def test_a_window_that_no_row_reaches_stays_packed() -> None:
    operator = windows(10, 10, 100)
    state: State = {}
    outputs = [process(operator, row, state) for row in at(5, 15)]
    operator.pack(state)
    packed = dict(state["windows"])
    assert all(isinstance(groups, bytes) for groups in packed.values())
    state = load_state(dump_state(state))
    outputs += [process(operator, row, state) for row in at(16)]
    assert counted(outputs) == [[(0, 1)], [(10, 1)], [(10, 2)]]
    assert state["windows"][0] == packed[0]
    operator.pack(state)
    assert (state["windows"][0], state["windows"][10]) == (packed[0], dump_state(unpacked(state["windows"][10])))


def test_a_packed_window_closes_like_any_other() -> None:
    operator = windows(10, 10, 0, final=True)
    state: State = {}
    process(operator, at(5)[0], state)
    operator.pack(state)
    (closed,) = process(operator, at(15)[0], state)
    assert (closed.window, closed.value) == ((0, 10), ("x", 1, 0, 10))
