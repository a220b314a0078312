"""Walks and rewrites expressions without knowing the node classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from kestrel_sql.java.regex.time_limit import check_work
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


def _rewrite(node: object, rule: Rule) -> Any:
    """Rewrite a node; a chain from its end to where the rule replaces a link, and then back."""
    if isinstance(node, tuple):
        items = tuple(_rewrite(item, rule) for item in node)
        return items if any(after is not before for after, before in zip(items, node, strict=True)) else node
    links: list[Any] = []
    found = node
    while isinstance(node, Node):
        replacement = rule(node)  # type: ignore[arg-type]  # a When is a Node and no Expression; rules ignore it
        if replacement is not None:
            found = replacement
            break
        before = node.continued()
        if before is None:
            found = _with_parts(node, rule)
            break
        links.append(node)
        found = node = before
    for link in reversed(links):
        before = link.rest
        after = _rewrite(before, rule)
        found = link if found is link.start and after is before else link.with_parts(found, after)
    return found


def _with_parts(node: Node, rule: Rule) -> Node:
    check_work()
    changes: dict[str, Any] = {}
    for name in _members(node):
        before = getattr(node, name)
        if isinstance(before, Node | tuple):
            after = _rewrite(before, rule)
            if after is not before:
                changes[name] = after
    return replace(node, **changes) if changes else node


def _members(node: Node) -> tuple[str, ...]:
    """The fields of a node but for its span; quicker than `msgspec.structs.fields`."""
    names: tuple[str, ...] = type(node).__match_args__
    return names


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield `expression` and all its parts, parents first, in the order of the text."""
    check_work()
    waiting: list[Any] = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting += reversed(node)
        elif isinstance(node, Node):
            yield node  # type: ignore[misc]  # a When is a Node and no Expression; nobody looks for it
            waiting += [getattr(node, name) for name in reversed(_members(node))]


def column_refs(expression: Expression) -> Iterator[ColumnRef]:
    """Yield the column references of an expression in the order of the text."""
    return (node for node in walk(expression) if isinstance(node, ColumnRef))


def calls(expression: Expression, wanted: Callable[[str], bool]) -> Iterator[FunctionCall]:
    """Yield the calls of functions that `wanted` accepts by name."""
    return (node for node in walk(expression) if isinstance(node, FunctionCall) and wanted(node.name))
