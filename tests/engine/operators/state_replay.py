"""Runs an operator over rows twice: with its state left alone, and with a checkpoint between every two rows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from kestrel_sql.functions.declaration import Aggregate, AggregateCall
from kestrel_sql.operators.operator import Operator, Output, Row, State
from kestrel_sql.operators.state_codec import dump_state, load_state


def key_bytes(key: tuple[Any, ...]) -> bytes:
    return orjson.dumps(list(key))


def replay(operator: Operator, rows: Iterable[Row]) -> list[list[Output]]:
    """Return the outputs of each row; fail if the two runs differ."""
    copies = list(rows)
    left_alone: State = {}
    plain = [copy.deepcopy(list(operator.process(copy.deepcopy(row), left_alone))) for row in copies]
    state: State = {}
    stored = []
    for row in copies:
        stored.append(copy.deepcopy(list(operator.process(copy.deepcopy(row), state))))
        state = load_state(dump_state(state))
    assert stored == plain
    return plain


def final_state(operator: Operator, rows: Iterable[Row]) -> State:
    state: State = {}
    for row in rows:
        list(operator.process(row, state))
    return state


def brief(outputs: Sequence[Sequence[Output]]) -> list[list[tuple[Any, ...]]]:
    """Key (unpacked if single), value, timestamp and, if there is one, window."""
    return [[_brief(output) for output in row] for row in outputs]


def _brief(output: Output) -> tuple[Any, ...]:
    key = output.key[0] if output.key is not None and len(output.key) == 1 else output.key
    short = (key, output.value, output.timestamp)
    return short if output.window is None else (*short, output.window)


def call_of(
    function: Aggregate, *arguments: Any, literals: tuple[Any, ...] = (), settings: dict[str, str] | None = None
) -> Any:
    """Make the aggregator of one call."""
    return function.factory(AggregateCall(arguments, arguments[0] if arguments else None, literals, settings or {}))  # type: ignore[arg-type]
