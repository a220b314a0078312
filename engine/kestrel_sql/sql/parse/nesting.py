"""Limits the depth of syntax trees to what the engine's recursive functions can handle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

MAX_DEPTH = 200
"""The highest number of nested nodes, including the statement; each level takes at least one token."""


def is_deep(parsed: object) -> bool:
    """Whether nodes nest deeper than `MAX_DEPTH`; the check itself does not recurse."""
    level = list(_nodes([parsed]))
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _nodes([getattr(outer, field.name) for field in fields(outer)])]
        if not level:
            return False
    return True


def _nodes(values: list[object]) -> Iterator[Any]:
    """Yield the nodes among `values`, including those in tuples."""
    while values:
        value = values.pop()
        if isinstance(value, tuple):
            values.extend(value)
        elif is_dataclass(value):
            yield value
