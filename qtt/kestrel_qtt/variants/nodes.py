"""Visit the nodes of a statement, each with a function that puts another node in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from kestrel_sql.sql.nodes.expressions import Node

Rebuild = Callable[[Any], Any]
"""Returns the statement with another node in the place of one."""

# A join condition other than an equality cannot be planned. The retention of a window changes no record.
_UNTOUCHED = frozenset({"criteria", "retention", "source", "span"})


def nodes(statement: Node) -> Iterator[tuple[Node, Rebuild]]:
    """Yield the statement and the nodes below it, each with a function that returns the statement with another node."""
    yield from _nodes(statement, lambda changed: changed)


def _nodes(node: Node, rebuild: Rebuild) -> Iterator[tuple[Node, Rebuild]]:
    """Yield a node and all nodes below it, each with a function that puts another one in its place."""
    yield node, rebuild
    for member in fields(node):
        if member.name not in _UNTOUCHED:
            yield from _below(getattr(node, member.name), _replacer(node, member.name, rebuild))


def _below(value: Any, rebuild: Rebuild) -> Iterator[tuple[Node, Rebuild]]:
    if isinstance(value, Node):
        yield from _nodes(value, rebuild)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _below(item, _item_replacer(value, index, rebuild))


def _replacer(node: Node, name: str, rebuild: Rebuild) -> Rebuild:
    return lambda changed: rebuild(replace(node, **{name: changed}))


def _item_replacer(items: tuple[Any, ...], index: int, rebuild: Rebuild) -> Rebuild:
    return lambda changed: rebuild((*items[:index], changed, *items[index + 1 :]))
