"""Bound expressions: a tree with a type on every node, overloads chosen and implicit casts made explicit."""

from __future__ import annotations

from dataclasses import dataclass

from kestrel_sql.functions.declaration import Function
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class Bound:
    """A typed expression.

    `children` are bound in the order in which the node's class lists them (a CASE: condition, result, …, default; a
    MAP: key, value, …); a lambda's only child is its body. An implicit conversion is a child whose node is a
    `Cast`, marked `implicit`. `type` is None for an untyped NULL and for lambdas. `function` is set on calls, as is `required`: which
    arguments may not be NULL.
    """

    node: Expression
    type: SqlType | None
    children: tuple[Bound, ...] = ()
    function: Function | None = None
    required: tuple[bool, ...] = ()
    implicit: bool = False
