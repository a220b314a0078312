"""The rows read from a state are those that the operator emitted last for each key and window, without tombstones."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kestrel_sql.functions.library.aggregates.sums import count, sum_
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate
from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import Operator, State
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.operators.table_rows import holds_table, table_rows
from kestrel_sql.operators.tables.table_store import TableStore
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.sql_types import BIGINT
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import call_of, key_bytes, process

CALLS = ((call_of(count), ()), (call_of(sum_, BIGINT), (0,)))
DAY = 86_400_000
GROUPED: dict[str, Any] = {"key_bytes": key_bytes, "columns": (0,), "calls": CALLS}

OPERATORS: dict[str, tuple[Operator, bool]] = {
    "stream": (StreamAggregate(**GROUPED), False),
    "table": (TableAggregate(**GROUPED), False),
    "windows": (TimeWindowAggregate(**GROUPED, size_ms=10, advance_ms=5, grace_ms=DAY, retention_ms=DAY), True),
    "sessions": (SessionWindowAggregate(**GROUPED, gap_ms=3, grace_ms=DAY, retention_ms=DAY), True),
    "store": (TableStore(key_bytes=key_bytes, width=1), False),
    "store of windows": (TableStore(key_bytes=key_bytes, width=1), True),
    "join": (TableJoin(join_type=JoinType.INNER, key_bytes=key_bytes), False),
}


def rows(kind: str, seed: int) -> list[Row]:
    chosen = random.Random(seed)
    previous: dict[tuple[int, int], Any] = {}
    history = []
    for at in range(60):
        side = chosen.randrange(2) if kind == "join" else 0
        key = chosen.randrange(5)
        value = (
            None
            if chosen.random() < 0.2 and kind in ("join", "store", "store of windows", "table")
            else (chosen.randrange(100),)
        )
        timestamp = at * 2 + chosen.randrange(10)
        row = Row(side, (key,), value, timestamp)
        if kind == "table":
            row.old, row.old_key = previous.get((0, key)), (key,)
            previous[0, key] = value
        if kind == "store of windows":
            start = timestamp // 10 * 10
            row.window = (start, start + 10)
        history.append(row)
    return history


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", OPERATORS)
def test_table_rows_are_the_latest_outputs(kind: str, seed: int) -> None:
    operator, windowed = OPERATORS[kind]
    state: State = {}
    written: dict[tuple[bytes, Any], tuple[Any, int]] = {}
    for row in rows(kind, seed):
        for output in process(operator, row, state):
            assert output.key is not None
            row_id = (key_bytes(output.key), output.window)
            if output.value is None:
                written.pop(row_id, None)
            else:
                written[row_id] = (output.value, output.timestamp)
    state = load_state(dump_state(state))
    shown = {
        (entry.key, entry.window): (entry.value, entry.timestamp)
        for entry in table_rows(operator, state, None, windowed)
    }
    assert shown == written
    assert holds_table(operator)
    wanted = {key_bytes((1,)), key_bytes((99,))}
    some = {(entry.key, entry.window) for entry in table_rows(operator, state, wanted, windowed)}
    assert some == {row_id for row_id in written if row_id[0] in wanted}


def test_some_states_do_not_hold_a_table() -> None:
    final = TimeWindowAggregate(**GROUPED, size_ms=10, advance_ms=5, grace_ms=0, retention_ms=10, final=True)
    left = TableJoin(join_type=JoinType.LEFT, key_bytes=key_bytes)
    foreign = ForeignKeyJoin(join_type=JoinType.INNER, key_bytes=key_bytes, foreign_key_bytes=key_bytes)
    assert not any(holds_table(operator) for operator in (final, left, foreign))
    with pytest.raises(TypeError, match="ForeignKeyJoin does not hold a table"):
        next(table_rows(foreign, {}, None, False))


def test_windows_can_be_read_for_their_retention() -> None:
    state: State = {}
    windows = TimeWindowAggregate(**GROUPED, size_ms=10, advance_ms=10, grace_ms=0, retention_ms=20)
    for timestamp in (5, 15, 38, 39, 7, 41):
        process(windows, Row(0, (1,), (1,), timestamp), state)
    # The newest window starts at 40, so windows that start before 20 are gone; the row at 7 was late.
    shown = [(entry.window, entry.value[1]) for entry in table_rows(windows, state, None, True)]
    assert shown == [((30, 40), 2), ((40, 50), 1)]
    process(windows, Row(0, (1,), (1,), 51), state)
    assert [entry.window for entry in table_rows(windows, state, None, True)] == [(30, 40), (40, 50), (50, 60)]


def test_sessions_can_be_read_for_their_retention() -> None:
    state: State = {}
    sessions = SessionWindowAggregate(**GROUPED, gap_ms=3, grace_ms=0, retention_ms=20)
    for timestamp in (5, 15, 30):
        process(sessions, Row(0, (1,), (1,), timestamp), state)
    assert [entry.window for entry in table_rows(sessions, state, None, True)] == [(15, 15), (30, 30)]


def test_rows_stored_before_columns_were_added_have_null_there() -> None:
    state: State = {}
    process(TableStore(key_bytes=key_bytes, width=1), Row(0, (1,), (5,), 7), state)
    (entry,) = table_rows(TableStore(key_bytes=key_bytes, width=3), state, None, False)
    assert entry.value == (5, None, None)
