"""Bound expressions: trees with a type on every node, chosen overloads and explicit conversions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kestrel_sql.functions.declaration import Function
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression
from kestrel_sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class Bound:
    """A typed expression.

    `children` are in the order of the fields of the node's class (CASE: condition, result, …, default; MAP: key, value,
    …); the only child of a lambda is its body. An implicit conversion is a child with a `Cast` node, marked `implicit`.
    `type` is None for an untyped NULL and for a lambda. Calls have a `function`, and `required` with True for each
    argument that must not be NULL.
    """

    node: Expression
    type: SqlType | None
    children: tuple[Bound, ...] = ()
    function: Function | None = None
    required: tuple[bool, ...] = ()
    implicit: bool = False


def columns_of(bound: Bound) -> Iterator[tuple[str, SqlType | None]]:
    """Yield the columns that an expression refers to, with their types."""
    if isinstance(bound.node, ColumnRef):
        yield bound.node.name, bound.type
    for child in bound.children:
        yield from columns_of(child)
