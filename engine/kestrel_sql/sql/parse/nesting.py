"""The limits of expressions: what every part of the engine, and Spark, is sure to compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from kestrel_sql.sql.nodes.expressions import Arithmetic, FunctionCall, Logical

MAX_DEPTH = 60
"""How many levels nodes may nest, those of the statement and of types included; a chain is one level."""

MAX_TERMS = 200
"""How many terms the chains may have, such as `a + b + c`, that lead from the statement to a column or literal."""


def is_too_large(parsed: object) -> bool:
    """Whether nodes exceed a limit; the check itself does not recurse."""
    waiting = [(node, 1, 2) for node in _nodes([parsed])]
    while waiting:
        node, depth, terms = waiting.pop()
        if depth > MAX_DEPTH or terms > MAX_TERMS:
            return True
        first = _continued(node)
        inner = _nodes([getattr(node, field.name) for field in fields(node)])
        waiting += [(each, depth, terms + 1) if each is first else (each, depth + 1, terms) for each in inner]
    return False


def _continued(node: object) -> object:
    """The chain that a node adds an operator and its last term to, None if it begins one or is no operator."""
    match node:
        case Arithmetic(left=Arithmetic() as chain) | Logical(left=Logical() as chain):
            return chain
        case FunctionCall(name="CONCAT", arguments=(FunctionCall(name="CONCAT") as chain, _)):
            return chain
        case _:
            return None


def _nodes(values: list[object]) -> Iterator[Any]:
    """Yield the nodes among `values`, including those in tuples."""
    while values:
        value = values.pop()
        if isinstance(value, tuple):
            values.extend(value)
        elif is_dataclass(value):
            yield value
