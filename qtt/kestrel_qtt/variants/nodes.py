"""Visit the nodes of a statement, each with a function that puts another node in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import fields, replace

from kestrel_sql.sql.nodes.expressions import Node

Rebuild = Callable[[Any], Any]
"""Returns the statement with another node in the place of one."""

# A join condition other than an equality cannot be planned. The retention of a window changes no record.
_UNTOUCHED = frozenset({"criteria", "retention", "source", "span"})


def nodes(statement: Node) -> Iterator[tuple[Node, Rebuild]]:
    """Yield the statement and the nodes below it, each with a function that returns the statement with another node."""
    waiting: list[tuple[Any, _Path]] = [(statement, ())]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, Node):
            yield value, partial(_rebuilt, path)
            names = [member.name for member in fields(value) if member.name not in _UNTOUCHED]
            waiting += [(getattr(value, name), (value, name, path)) for name in reversed(names)]
        elif isinstance(value, tuple):
            waiting += [(item, (value, at, path)) for at, item in reversed([*enumerate(value)])]


_Path = tuple[Any, ...]
"""Where a value is: what holds it, the name or index there, and the path of that; empty for the statement."""


def _rebuilt(path: _Path, changed: Any) -> Any:
    while path:
        holder, place, path = path
        if isinstance(holder, Node):
            changed = replace(holder, **{place: changed})
        else:
            changed = (*holder[:place], changed, *holder[place + 1 :])
    return changed
