"""Spans and children of grammar rules, for the builders of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kestrel_sql.errors import Span
from kestrel_sql.sql.nodes.expressions import Node
from kestrel_sql.sql.parse.tokens import Token, span_of

_START = Span(1, 1, 1, 1)

Children = list[Any]
"""The children of a grammar rule: tokens, nodes and parts in textual order."""

Build = Callable[[Any, Children], Any]
"""A method that makes a node or part of the children of its rule."""


class Part(msgspec.Struct, frozen=True):
    """A piece of a statement without a node of its own: the name of its rule, its value and its span."""

    rule: str
    value: Any
    span: Span


def child_span(child: Token | Node | Part) -> Span:
    """Return the span of one child."""
    return span_of(child) if isinstance(child, Token) else child.span or _START


def cover(children: Children) -> Span:
    """Return the span from the first to the last child."""
    first, last = _place(children[0]), _place(children[-1])
    return Span(first.line, first.column, last.end_line, last.end_column)


def _place(child: Token | Node | Part) -> Token | Span:
    """What says where a child is: a token itself, and the span of anything else."""
    return child if isinstance(child, Token) else child.span or _START


def kinds(children: Children) -> set[str]:
    """Return the token types among the children, to see which optional keywords the text has."""
    return {child.type for child in children if isinstance(child, Token)}


def nodes(children: Children) -> tuple[Any, ...]:
    """Return the children that are nodes."""
    return tuple(child for child in children if isinstance(child, Node))


def parts(children: Children) -> dict[str, Any]:
    """Return the values of the parts among the children by rule name."""
    return {child.rule: child.value for child in children if isinstance(child, Part)}


def _value(child: Token | Node | Part) -> object:
    """A node, the value of a part, or the text of a token."""
    return child if isinstance(child, Node) else child.value


def node(cls: type[Node], *places: int) -> Build:
    """Build a node of the children in these places."""
    return lambda rules, c: cls(*(_value(c[place]) for place in places), span=cover(c))


def part(rule: str, *places: int) -> Build:
    """Build a part that has the child in this place, or a tuple of those in several."""

    def build(rules: object, c: Children) -> Part:
        values = tuple(_value(c[place]) for place in places)
        return Part(rule, values[0] if len(values) == 1 else values, cover(c))

    return build


def flag(rule: str) -> Build:
    """Build a part that is true where the text has it."""
    return lambda rules, c: Part(rule, True, cover(c))


def names(children: Children) -> tuple[str, ...]:
    """Return the normalised identifiers among the children."""
    return tuple(child.value for child in children if isinstance(child, Token) and child.type == NAME)


NAME = "NAME"
"""The token type of an identifier after normalisation."""
