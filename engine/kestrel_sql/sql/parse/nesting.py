"""The limits of expressions: what every part of the engine, and Spark, is sure to compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kestrel_sql.errors import Span, SqlSyntaxError
from kestrel_sql.sql.nodes.expressions import Node

MAX_DEPTH = 60
"""How many levels nodes may nest, those of the statement and of types included; a chain is one level."""

MAX_TERMS = 5_000
"""How many terms the chains may have, such as `a + b + c`, that lead from the statement to a column or literal."""

MAX_TOKENS = 100_000
"""How many words and signs a statement may have; 10,000 columns take 30,000 of them, and 10,000 values 20,000."""

MAX_LETTERS = 1 << 20
"""How many letters a word, number or text may have: no more fit into a message as Kafka limits it by default."""

MAX_FILLED = 1_000_000
"""How many letters the variables of a statement may stand for: their values may stand for others in turn."""


def too_large(span: Span) -> SqlSyntaxError:
    """Return the error of a statement that exceeds a limit."""
    return SqlSyntaxError(
        f"The statement is too large: it may have {MAX_TOKENS} words and signs, "
        f"and an expression may nest {MAX_DEPTH} levels and chain {MAX_TERMS} terms",
        span=span,
        hint="split it: compute the inner expressions in one query and use their results in another",
    )


def is_too_large(parsed: object) -> bool:
    """Whether nodes exceed a limit; the check itself does not recurse."""
    waiting = [(node, 1, 2) for node in _nodes([parsed])]
    while waiting:
        node, depth, terms = waiting.pop()
        if depth > MAX_DEPTH or terms > MAX_TERMS:
            return True
        first = _continued(node)
        inner = _nodes([*msgspec.structs.astuple(node)])
        waiting += [(each, depth, terms + 1) if each is first else (each, depth + 1, terms) for each in inner]
    return False


def is_long_chain(node: object) -> bool:
    """Whether a chain has too many terms; looks at no more of them, so that it costs little while a text is parsed."""
    terms = 1
    while (node := _continued(node)) is not None and terms < MAX_TERMS:
        terms += 1
    return node is not None


def _continued(node: object) -> object:
    """The chain that a node adds an operator and its last term to, None if it begins one or is no operator."""
    return node.continued() if isinstance(node, Node) else None


def _nodes(values: list[object]) -> Iterator[Any]:
    """Yield the nodes among `values`, including those in tuples."""
    while values:
        value = values.pop()
        if isinstance(value, tuple):
            values.extend(value)
        elif isinstance(value, msgspec.Struct) and not isinstance(value, Span):
            yield value
