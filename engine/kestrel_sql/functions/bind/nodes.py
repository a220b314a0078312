"""Bound expressions: trees with a type on every node, chosen overloads and explicit conversions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import SupportsIndex

import msgspec

from kestrel_sql.functions.declaration import Function
from kestrel_sql.sql.nodes.chains import chain
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.types.sql_types import SqlType


class Bound(msgspec.Struct, frozen=True):
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

    def continued(self) -> Bound | None:
        """The link of a chain that this one continues (`Node.continued`)."""
        before = self.node.continued()
        return self.children[0] if before is not None and self.children[0].node is before else None

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        """Pickle a chain link by link."""
        first, *others = links = chain(self)
        if not others:
            return object.__reduce_ex__(self, protocol)
        facts = [(each.type, each.children[1:], each.function, each.required, each.implicit) for each in links]
        return _linked, (self.node, first.children[0], facts)


_Facts = tuple[SqlType | None, tuple[Bound, ...], Function | None, tuple[bool, ...], bool]


def _linked(node: Expression, bound: Bound, links: Sequence[_Facts]) -> Bound:
    for each, (sql_type, others, function, required, implicit) in zip(chain(node)[-len(links) :], links, strict=True):
        bound = Bound(each, sql_type, (bound, *others), function, required, implicit)
    return bound


def parts(bound: Bound) -> Iterator[Bound]:
    """Yield an expression and all its parts, parents first."""
    waiting = [bound]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(part.children)
