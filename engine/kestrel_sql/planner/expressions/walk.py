"""Walks and rewrites expressions without knowing the node classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall, Node

N = TypeVar("N", bound=Node)
Rule = Callable[[Expression], Expression | None]
"""Returns the replacement of a node, or None to descend into the node."""


def rewrite(expression: Expression, rule: Rule) -> Expression:
    """Replace nodes from the root down; replacements are not rewritten again."""
    rebuilt: Expression = _rewrite(expression, rule)
    return rebuilt


def rewrite_within(node: N, rule: Rule) -> N:
    """Replace the expressions inside a node that is not an expression, such as a query, as `rewrite` does."""
    rebuilt: N = _rewrite(node, rule)
    return rebuilt


def _rewrite(node: Any, rule: Rule) -> Any:
    if isinstance(node, tuple):
        return tuple(_rewrite(item, rule) for item in node)
    if not isinstance(node, Node):
        return node
    replacement = rule(node)  # type: ignore[arg-type]  # a When is a Node and no Expression; rules ignore it
    if replacement is not None:
        return replacement
    changes = {}
    for spec in fields(node):
        before = getattr(node, spec.name)
        after = _rewrite(before, rule)
        if after is not before and after != before:
            changes[spec.name] = after
    return replace(node, **changes) if changes else node


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield `expression` and all its parts, parents first, in the order of the text."""
    yield from _walk(expression)


def _walk(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for item in node:
            yield from _walk(item)
    elif isinstance(node, Node):
        yield node
        for spec in fields(node):
            yield from _walk(getattr(node, spec.name))


def column_refs(expression: Expression) -> Iterator[ColumnRef]:
    """Yield the column references of an expression in the order of the text."""
    return (node for node in walk(expression) if isinstance(node, ColumnRef))


def calls(expression: Expression, wanted: Callable[[str], bool]) -> Iterator[FunctionCall]:
    """Yield the calls of functions that `wanted` accepts by name."""
    return (node for node in walk(expression) if isinstance(node, FunctionCall) and wanted(node.name))
