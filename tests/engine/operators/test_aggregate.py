from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_sql.errors import QueryError
from kestrel_sql.functions.declaration import Aggregator
from kestrel_sql.functions.library.aggregates.by_offset import latest_n_by_offset
from kestrel_sql.functions.library.aggregates.collections import collect_list
from kestrel_sql.functions.library.aggregates.extremes import max_
from kestrel_sql.functions.library.aggregates.sums import count, sum_
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.types.sql_types import INTEGER, STRING
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, call_of, key_bytes, process, replay

COUNT = (call_of(count), ())
SUM = (call_of(sum_, INTEGER), (1,))
LIST = (call_of(collect_list, INTEGER), (1,))


def stream(*calls: Any) -> StreamAggregate:
    return StreamAggregate(key_bytes=key_bytes, columns=(0,), calls=calls)


def table(*calls: Any) -> TableAggregate:
    return TableAggregate(key_bytes=key_bytes, columns=(0,), calls=calls)


def row(key: Any, value: Any, timestamp: int = 0, old_key: Any = None, old: Any = None) -> Row:
    wrapped = None if key is None else (key,)
    return Row(0, wrapped, value, timestamp, old=old, old_key=None if old_key is None else (old_key,))


@pytest.mark.rules("O7.2")
def test_one_output_per_row_with_the_running_maximum_of_timestamps() -> None:
    rows = [row("a", ("x", 3), 10), row("b", ("y", 1), 11), row("a", ("z", None), 5), row("a", ("z", 4), 12)]
    assert brief(replay(stream(COUNT, SUM), rows)) == [
        [("a", ("x", 1, 3), 10)],
        [("b", ("y", 1, 1), 11)],
        [("a", ("z", 2, 3), 10)],
        [("a", ("z", 3, 7), 12)],
    ]


@pytest.mark.rules("O6.2")
def test_null_keys_and_null_rows_are_dropped() -> None:
    assert replay(stream(COUNT), [row(None, ("x", 1)), row("a", None)]) == [[], []]


def test_old_of_the_first_update_is_the_initial_aggregate() -> None:
    outputs = replay(stream(COUNT, SUM), [row("a", ("x", 150)), row("a", ("y", 1))])
    assert [update[0].old for update in outputs] == [(None, 0, 0), ("x", 1, 150)]


def test_aggregates_that_change_in_place_show_their_new_result_in_old() -> None:
    latest = (call_of(latest_n_by_offset, INTEGER, literals=(2,)), (1,))
    outputs = replay(stream(COUNT, LIST, latest), [row("a", ("x", 1)), row("a", ("y", 2)), row("a", ("z", 3))])
    assert [update[0].old for update in outputs] == [
        (None, 0, [1], [1]),
        ("x", 1, [1, 2], [1, 2]),
        ("y", 2, [1, 2, 3], [2, 3]),
    ]


@pytest.mark.rules("O10.5")
def test_a_table_row_that_stays_in_its_group_gives_one_output() -> None:
    rows = [
        row("a", ("x", 3), 5),
        row("a", ("y", 4), 3, "a", ("x", 3)),
        row("a", ("y", 4), 9, "a", ("y", 4)),
    ]
    outputs = replay(table(COUNT, SUM), rows)
    assert brief(outputs) == [[("a", ("x", 1, 3), 5)], [("a", ("y", 1, 4), 5)], [("a", ("y", 1, 4), 9)]]
    assert [update[0].old for update in outputs] == [None, ("x", 1, 3), ("y", 1, 4)]


def test_a_table_row_that_moves_updates_its_old_group_first() -> None:
    rows = [row("a", ("x", 3), 1), row("b", ("y", 4), 2, "a", ("x", 3)), row(None, None, 3, "b", ("y", 4))]
    assert brief(replay(table(COUNT, SUM), rows)) == [
        [("a", ("x", 1, 3), 1)],
        [("a", ("x", 0, 0), 2), ("b", ("y", 1, 4), 2)],
        [("b", ("y", 0, 0), 3)],
    ]


def test_a_side_without_a_group_is_skipped() -> None:
    rows = [
        row("a", ("x", 3), 1),
        row(None, ("y", 4), 2, "a", ("x", 3)),
        row("a", ("z", 5), 3, None, ("y", 4)),
        row(None, None, 4),
    ]
    assert brief(replay(table(COUNT, SUM), rows)) == [
        [("a", ("x", 1, 3), 1)],
        [("a", ("x", 0, 0), 2)],
        [("a", ("z", 1, 5), 3)],
        [],
    ]


def test_undo_without_a_group_gives_a_tombstone() -> None:
    assert brief(replay(table(COUNT), [row(None, None, 4, "a", ("x", 1))])) == [[("a", None, 4)]]


def test_collect_list_loses_the_last_equal_element() -> None:
    rows = [row("a", ("x", 1)), row("a", ("x", 2)), row("a", ("x", 1)), row("a", ("y", 9), 0, "a", ("x", 1))]
    assert brief(replay(table(LIST), rows))[-1] == [("a", ("y", [1, 2, 9]), 0)]


def test_an_aggregate_that_cannot_undo_fails_on_a_table() -> None:
    operator = table((call_of(max_, STRING), (0,)))
    state: dict[str, Any] = {}
    process(operator, row("a", ("x", 1)), state)
    with pytest.raises(QueryError):
        process(operator, row("a", ("x", 1), 0, "a", ("x", 1)), state)


def test_a_failure_names_the_function() -> None:
    def divide(state: int, value: int) -> int:
        return state // value

    failing = Aggregator(
        initialize=lambda: 1,
        aggregate=divide,
        undo=divide,
        merge=lambda one, _: one,
        result=lambda state: state,
        name="SHARE",
    )
    operator = StreamAggregate(key_bytes=key_bytes, columns=(), calls=((failing, (0,)),))
    with pytest.raises(QueryError, match="SHARE failed: integer division"):
        process(operator, Row(0, ("a",), (0,), 1), {})
    table = TableAggregate(key_bytes=key_bytes, columns=(), calls=((failing, (0,)),))
    state: dict[str, object] = {}
    process(table, Row(0, ("a",), (1,), 1), state)
    with pytest.raises(QueryError, match="SHARE failed"):
        process(table, Row(0, ("a",), (1,), 1, old=(0,), old_key=("a",)), state)


def test_a_result_and_a_merge_that_fail_name_the_function() -> None:
    def fail(*_: object) -> int:
        raise ArithmeticError("too much")

    sound = Aggregator(
        initialize=lambda: 0,
        aggregate=lambda s, _: s,
        undo=None,
        merge=lambda one, _: one,
        result=lambda s: s,
        name="SOUND",
    )
    calls = ((sound, (0,)), (replace(sound, name="SPLIT", result=fail), (0,)))
    operator = StreamAggregate(key_bytes=key_bytes, columns=(), calls=calls)
    with pytest.raises(QueryError, match="SPLIT failed: too much"):
        process(operator, Row(0, ("a",), (0,), 1), {})
    merging = ((sound, (0,)), (replace(sound, name="SPLIT", merge=fail), (0,)))
    sessions = SessionWindowAggregate(
        key_bytes=key_bytes, columns=(), calls=merging, gap_ms=10, grace_ms=1000, retention_ms=1010, final=False
    )
    with pytest.raises(QueryError, match="SPLIT failed: too much"):
        replay(sessions, [Row(0, ("a",), (0,), at) for at in (0, 20, 10)])
