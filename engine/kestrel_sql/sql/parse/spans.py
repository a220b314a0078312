"""Places of tree nodes: what a grammar rule covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lark import Token

from kestrel_sql.errors import Span
from kestrel_sql.sql.nodes.expressions import Node
from kestrel_sql.sql.parse.tokens import span_of

Children = list[Any]
"""What a rule was made of: tokens, nodes and parts, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a statement that is no node by itself: the rule it comes from, its value, its place."""

    rule: str
    value: Any
    span: Span


def place(child: Token | Node | Part) -> Span:
    """Say where one child stands."""
    if isinstance(child, Token):
        return span_of(child)
    return child.span or Span(1, 1, 1, 1)


def cover(children: Children) -> Span:
    """Span from the first to the last child."""
    first, last = place(children[0]), place(children[-1])
    return Span(first.line, first.column, last.end_line, last.end_column)


def kinds(children: Children) -> set[str]:
    """Collect the token types among the children, to see which optional words were written."""
    return {child.type for child in children if isinstance(child, Token)}


def nodes(children: Children) -> tuple[Any, ...]:
    """Keep the children that are nodes."""
    return tuple(child for child in children if isinstance(child, Node))


def parts(children: Children) -> dict[str, Any]:
    """Collect the values of the parts among the children by rule."""
    return {child.rule: child.value for child in children if isinstance(child, Part)}


def names(children: Children) -> tuple[str, ...]:
    """Collect the normalised identifiers among the children."""
    return tuple(child.value for child in children if isinstance(child, Token) and child.type == NAME)


NAME = "NAME"
"""The token type of an identifier that a builder has normalised."""
