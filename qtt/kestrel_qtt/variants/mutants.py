"""Make the mutants of a text of statements: each differs from it in one detail of one query."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kestrel_qtt.variants.changes import changes
from kestrel_qtt.variants.nodes import nodes
from kestrel_sql.errors import Span
from kestrel_sql.functions.registry import Registry
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.parser import ParsedStatement


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed statement, the one at `piece` of its text.

    `span` is the position of the change in the original, `diff` shows it in SQL.
    """

    piece: int
    text: str
    span: Span
    diff: str


def mutants_of(pieces: Sequence[ParsedStatement], functions: Registry) -> Iterator[Mutant]:
    """Yield the mutants of the queries in a text of several statements."""
    seen: set[str] = set()
    for index, piece in enumerate(pieces):
        if not isinstance(piece.statement, s.CreateAs | s.InsertInto):
            continue
        original = format_statement(piece.statement)
        for statement, span in _changed(piece.statement, functions):
            changed = format_statement(statement)
            if changed != original and changed not in seen:
                seen.add(changed)
                text = changed.rstrip(";") + ";"
                yield Mutant(index, text, span or piece.span, _difference(original, changed))


def _changed(statement: s.CreateAs | s.InsertInto, functions: Registry) -> Iterator[tuple[Any, Span | None]]:
    """Yield the statement with each change of each of its nodes, and the position of the node."""
    for node, rebuild in nodes(statement):
        for changed in changes(node, functions):
            yield rebuild(changed), node.span


def _difference(original: str, changed: str) -> str:
    """Return the lines that differ, with `-` for the original and `+` for the mutant."""
    lines = difflib.ndiff(original.splitlines(), changed.splitlines())
    return "\n".join(f"{line[0]} {line[2:].strip()}" for line in lines if line[0] in "-+")
