"""Aggregates that compare values: MIN, MAX, TOPK and TOPKDISTINCT."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, isnan
from typing import Any, TypeVar

from kestrel_sql.functions.declaration import AggregateCall, Aggregator, Fold, aggregate
from kestrel_sql.java.utf16 import units
from kestrel_sql.types import sql_types as t

T = TypeVar("T")

_ORDERED = ("INT", "BIGINT", "DOUBLE", "DECIMAL(p,s)", "DATE", "TIME", "TIMESTAMP", "STRING", "BYTES")
_NUMBERS = (t.INTEGER, t.BIGINT, t.DOUBLE, t.DATE, t.TIME, t.TIMESTAMP)
"""Types that are ordered like their numbers."""

_SORT_TYPES = ("INT", "BIGINT", "DOUBLE", "STRING")

Order = Callable[[Any], Any]


def java_order(sql_type: t.SqlType | None) -> Order:
    """Return the sort key of Java's `compareTo`.

    Strings sort by UTF-16 units, bytes are signed, NaN is the greatest DOUBLE, and -0.0 is less than 0.0.
    """
    if sql_type == t.STRING:
        return units
    if sql_type == t.BYTES:
        return _signed_bytes
    return _double if sql_type == t.DOUBLE else _itself


def _signed_bytes(value: bytes) -> bytes:
    return bytes(byte ^ 0x80 for byte in value)


def _double(value: float) -> tuple[bool, float, float]:
    return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))


def _itself(value: T) -> T:
    return value


def _extreme(call: AggregateCall, fold: Fold, is_better: Callable[..., bool]) -> Aggregator:
    order = java_order(call.arguments[0])

    def better(state: T | None, value: T | None) -> T | None:
        if value is None or state is None:
            return state if value is None else value
        return value if is_better(order(value), order(state)) else state

    known = fold if call.arguments[0] in _NUMBERS else None
    return Aggregator(initialize=lambda: None, aggregate=better, merge=better, result=lambda state: state, fold=known)


@aggregate(*(f"(value {name}) -> {name}" for name in _ORDERED), undoable=False, name="MIN")
def min_(call: AggregateCall) -> Aggregator:
    """Return the smallest value that is not NULL, or NULL if there is none.

    Example: MIN(X) over 2, 1, NULL -> 1
    """
    return _extreme(call, Fold.MIN, lambda value, best: value <= best)


@aggregate(*(f"(value {name}) -> {name}" for name in _ORDERED), undoable=False, name="MAX")
def max_(call: AggregateCall) -> Aggregator:
    """Return the largest value that is not NULL, or NULL if there is none.

    Example: MAX(X) over 2, 3, NULL -> 3
    """
    return _extreme(call, Fold.MAX, lambda value, best: value >= best)


def _ranking(
    call: AggregateCall, entry: Callable[..., object], sort_column: Order, distinct: bool = False
) -> Aggregator:
    """Return the aggregator of the largest entries in descending order; equal ones keep their order of arrival."""
    order = java_order(call.arguments[0])
    size = call.literals[-1]

    def insert(entries: list[object], new: object) -> list[object]:
        rank = order(sort_column(new))
        ranks = [order(sort_column(known)) for known in entries]
        if len(entries) >= size and not (ranks and rank > ranks[-1]):
            return entries
        if not (distinct and rank in ranks):
            at = next((position for position, known in enumerate(ranks) if known < rank), len(entries))
            entries.insert(at, new)
            del entries[size:]
        return entries

    def include(state: list[object], *arguments: object) -> list[object]:
        return state if arguments[0] is None else insert(state, entry(*arguments))

    def merge(state: list[object], other: list[object]) -> list[object]:
        for known in other:
            insert(state, known)
        return state

    return Aggregator(initialize=list, aggregate=include, merge=merge, result=list, mutates=True)


def _ranked_structs(arguments: tuple[t.SqlType | None, ...]) -> t.SqlType:
    others = (t.Field(f"col{position}", sql_type or t.STRING) for position, sql_type in enumerate(arguments[1:-1]))
    return t.Array(t.Struct((t.Field("sort_col", arguments[0] or t.BIGINT), *others)))


@aggregate(*(f"(value {name}, literal k INT) -> ARRAY<{name}>" for name in _SORT_TYPES), undoable=False, name="TOPK")
def topk(call: AggregateCall) -> Aggregator:
    """Return the k largest values that are not NULL in descending order, with duplicates.

    Example: TOPK(X, 2) over 1, 3, 3 -> ARRAY[3, 3]
    """
    return _ranking(call, _itself, _itself)


@aggregate(
    *(f"(sort {name}, ANY, ANY..., literal k INT) -> ARRAY<{name}>" for name in _SORT_TYPES),
    undoable=False,
    name="TOPK",
    returns=_ranked_structs,
)
def topk_structs(call: AggregateCall) -> Aggregator:
    """Return the rows with the k largest sort values, in descending order, as structs of sort_col, col0, col1, ….

    Rows with equal sort values keep their order of arrival.

    Example: TOPK(X, Y, 1) over (1, 'a'), (2, 'b') -> ARRAY[STRUCT(`sort_col` := 2, `col0` := 'b')]
    """

    def entry(sort: object, *others: object) -> dict[str, object]:
        return {"sort_col": sort, **{f"col{position}": value for position, value in enumerate(others)}}

    return _ranking(call, entry, lambda known: known["sort_col"])


@aggregate(*(f"(value {name}, literal k INT) -> ARRAY<{name}>" for name in _ORDERED), undoable=False)
def topkdistinct(call: AggregateCall) -> Aggregator:
    """Return the k largest distinct values that are not NULL in descending order.

    Example: TOPKDISTINCT(X, 2) over 1, 3, 3 -> ARRAY[3, 1]
    """
    return _ranking(call, _itself, _itself, distinct=True)
