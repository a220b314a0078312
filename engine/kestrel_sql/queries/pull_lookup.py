"""Finds the keys in a WHERE clause, so that a pull query reads only their pages."""

from __future__ import annotations

from kestrel_sql.expressions.compiler import compile_expression
from kestrel_sql.expressions.single_row import value_of
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.registry import Registry
from kestrel_sql.queries.pull_rules import disjuncts
from kestrel_sql.sql.nodes.expressions import ColumnRef, Comparison, ComparisonOp, Expression
from kestrel_sql.sql.nodes.walk import column_refs
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DATE, INTEGER, STRING, TIME, TIMESTAMP

Keys = tuple[tuple[object, ...], ...]

_EXACT = frozenset({BOOLEAN, INTEGER, BIGINT, STRING, DATE, TIME, TIMESTAMP})
"""Types whose equal values have equal bytes; keys of other types are compared row by row."""

_MAX_KEYS = 10_000


def named_keys(where: Expression | None, key: tuple[Column, ...], functions: Registry) -> Keys | None:
    """Return all keys that may fulfil `where`, whose columns are unqualified; None if any key may.

    Only equality with constants is used, so the rows of these keys must still be filtered.
    """
    if where is None or any(column.type not in _EXACT for column in key):
        return None
    alternatives = disjuncts(where)
    if len(alternatives) > _MAX_KEYS:
        return None
    found: dict[tuple[object, ...], None] = {}
    for alternative in alternatives:
        values = _values(alternative, key, functions)
        if len(values) < len(key):
            return None
        found[tuple(values[column.name] for column in key)] = None
    return tuple(found)


def _values(alternative: tuple[Expression, ...], key: tuple[Column, ...], functions: Registry) -> dict[str, object]:
    """The constants with which key columns are compared, by column."""
    columns = {column.name: column for column in key}
    found: dict[str, object] = {}
    for condition in alternative:
        match condition:
            case Comparison(ComparisonOp.EQUAL, ColumnRef(name), constant) | Comparison(
                ComparisonOp.EQUAL, constant, ColumnRef(name)
            ):
                if name in columns and next(column_refs(constant), None) is None:
                    value = _constant(constant, columns[name], functions)
                    if value is not None:
                        found.setdefault(name, value)
            case _:
                continue
    return found


def _constant(expression: Expression, column: Column, functions: Registry) -> object:
    """The value of a constant as a key; None if it has another type or fails, and every row must be read."""
    bound = bind(expression, {}, functions)
    fits = bound.type == column.type or (bound.type == INTEGER and column.type == BIGINT)
    if not fits:
        return None
    try:
        return value_of(compile_expression(bound), {})
    except Exception:  # noqa: BLE001 - filtering the rows raises the same error again
        return None
