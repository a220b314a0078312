"""How deep texts may nest: what the engine's recursive functions over nodes can take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

MAX_DEPTH = 200
"""The most levels of nodes in nodes, a statement's own counted; one level takes at least one token."""


def is_deep(parsed: object) -> bool:
    """Whether nodes nest more than `MAX_DEPTH` deep; found without recursion."""
    level = list(_nodes([parsed]))
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _nodes([getattr(outer, field.name) for field in fields(outer)])]
        if not level:
            return False
    return True


def _nodes(values: list[object]) -> Iterator[Any]:
    """The nodes among `values`, those in tuples too."""
    while values:
        value = values.pop()
        if isinstance(value, tuple):
            values.extend(value)
        elif is_dataclass(value):
            yield value
