"""Aggregates that collect values: COLLECT_LIST, COLLECT_SET, HISTOGRAM and ATTR."""

from __future__ import annotations

from typing import Any

from kestrel_sql.functions.declaration import AggregateCall, Aggregator, aggregate
from kestrel_sql.functions.values.equality import equality_key, hash_map
from kestrel_sql.types.sql_types import INTEGER, STRING, Array, Field, SqlType, Struct

_HISTOGRAM_KEYS = 1000
_UNLIMITED = 2**31 - 1


def _limit(call: AggregateCall, function: str) -> int:
    """Return the maximal length of a list from `ksql.functions.<function>.limit`; unlimited if negative or absent."""
    limit = int(call.settings.get(f"ksql.functions.{function}.limit", -1))
    return _UNLIMITED if limit < 0 else limit


def _position(values: list[object], value: object) -> int | None:
    """Return the index of the last element that Java's `equals` treats as `value`, or None."""
    if isinstance(value, str | int | None):
        return len(values) - 1 - values[::-1].index(value) if value in values else None
    key = equality_key(value)
    return next((at for at in range(len(values) - 1, -1, -1) if equality_key(values[at]) == key), None)


@aggregate("(value T) -> ARRAY<T>", undoable=True, display_name="collect_list")
def collect_list(call: AggregateCall) -> Aggregator:
    """Collect all values in order, including NULLs, up to `ksql.functions.collect_list.limit` values.

    Example: COLLECT_LIST(X) over 1, NULL, 1 -> ARRAY[1, NULL, 1]
    """
    limit = _limit(call, "collect_list")

    def include(state: list[object], value: object) -> list[object]:
        if len(state) < limit:
            state.append(value)
        return state

    def undo(state: list[object], value: object) -> list[object]:
        position = _position(state, value)
        if position is not None:
            del state[position]
        return state

    def merge(state: list[object], other: list[object]) -> list[object]:
        state.extend(other[: max(limit - len(state), 0)])
        return state

    return Aggregator(initialize=list, aggregate=include, undo=undo, merge=merge, result=list, mutates=True)


@aggregate("(value T) -> ARRAY<T>", undoable=False, display_name="collect_set")
def collect_set(call: AggregateCall) -> Aggregator:
    """Collect distinct values in order of first appearance, including NULL.

    At most `ksql.functions.collect_set.limit` values are collected.

    Example: COLLECT_SET(X) over 1, NULL, 1 -> ARRAY[1, NULL]
    """
    limit = _limit(call, "collect_set")

    def include(state: list[object], value: object) -> list[object]:
        if len(state) < limit and _position(state, value) is None:
            state.append(value)
        return state

    def merge(state: list[object], other: list[object]) -> list[object]:
        for value in other:
            include(state, value)
        return state

    return Aggregator(initialize=list, aggregate=include, merge=merge, result=list, mutates=True)


@aggregate("(value STRING) -> MAP<STRING, BIGINT>", undoable=True, display_name="histogram")
def histogram(call: AggregateCall) -> Aggregator:
    """Count how often each value occurs; after 1000 distinct values, new ones are ignored.

    Example: HISTOGRAM(X) over 'a', 'b', 'a' -> MAP('a' := 2, 'b' := 1)
    """

    def include(state: dict[str | None, int], value: str | None, times: int = 1) -> dict[str | None, int]:
        if value in state or len(state) < _HISTOGRAM_KEYS:
            state[value] = state.get(value, 0) + times
        return state

    def undo(state: dict[str | None, int], value: str | None) -> dict[str | None, int]:
        left = state.pop(value, 0) - 1
        if left > 0:
            state[value] = left
        return state

    def merge(state: dict[str | None, int], other: dict[str | None, int]) -> dict[str | None, int]:
        for value, times in other.items():
            include(state, value, times)
        return state

    return Aggregator(
        initialize=dict,
        aggregate=lambda state, value: include(state, value),
        undo=undo,
        merge=merge,
        result=_counts,
        mutates=True,
    )


def _counts(counts: dict[str | None, int]) -> dict[str | None, int]:
    """Return the counts; as Java's `merge` does, each value comes before older ones of its bucket."""
    return hash_map(dict(reversed(counts.items())))


def _counted(arguments: tuple[SqlType | None, ...]) -> SqlType:
    return Array(Struct((Field("VALUE", arguments[0] or STRING), Field("COUNT", INTEGER))))


@aggregate("(value T) -> T", undoable=True, intermediate=_counted)
def attr(call: AggregateCall) -> Aggregator:
    """Return the value that all rows of a group share, or NULL if they differ; NULL counts as a value.

    Example: ATTR(X) over 7, 7 -> 7
    """

    def change(state: list[list[Any]], value: object, by: int) -> list[list[Any]]:
        position = _position([known for known, _ in state], value)
        if position is not None:
            state[position][1] += by
            if not state[position][1]:
                del state[position]
        elif by > 0:
            state.append([value, by])
        return state

    def merge(state: list[list[Any]], other: list[list[Any]]) -> list[list[Any]]:
        for value, times in other:
            change(state, value, times)
        return state

    return Aggregator(
        initialize=list,
        aggregate=lambda state, value: change(state, value, 1),
        undo=lambda state, value: change(state, value, -1),
        merge=merge,
        result=lambda state: state[0][0] if len(state) == 1 else None,
    )
