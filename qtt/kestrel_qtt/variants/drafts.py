"""A case in parts that can be taken away: its statements as trees, and its input records."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from kestrel_qtt.cases.model import Case, InputRecord
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.expressions import Node
from kestrel_sql.sql.parse.parser import parse_script


@dataclass(frozen=True, slots=True)
class Part:
    """A statement: its tree, and its text, which is the original one until the tree changes."""

    statement: Node
    text: str

    @staticmethod
    def of(statement: Node) -> Part:
        """Return the part of a changed statement, on one line unless a string holds a line feed."""
        text = format_statement(statement).rstrip(";") + ";"  # type: ignore[arg-type]
        in_strings = "".join(text.split("'")[1::2])
        return Part(statement, text if "\n" in in_strings else re.sub(r"\n\s*", " ", text))


@dataclass(frozen=True, slots=True)
class Draft:
    """A case on its way to a smaller one. Statements and inputs keep the numbers that they had in the original."""

    case: Case
    statements: dict[int, Part]
    inputs: dict[int, InputRecord]

    @staticmethod
    def of(case: Case) -> Draft:
        """Take a case apart.

        Raises:
            SqlSyntaxError: a statement does not parse.
        """
        pieces = [piece for text in case.statements for piece in parse_script(text, case.variables or None)]
        return Draft(
            case,
            {number: Part(piece.statement, piece.text) for number, piece in enumerate(pieces)},
            dict(enumerate(case.inputs)),
        )

    def to_case(self, name: str) -> Case:
        """Return the case of the draft under an id; its expectations are those of the original."""
        return replace(
            self.case,
            id=name,
            statements=tuple(part.text for part in self.statements.values()),
            inputs=tuple(self.inputs.values()),
            script=None,
            plan=None,
            serdes=None,
        )

    def with_statement(self, number: int, part: Part) -> Draft:
        """Return the draft with another statement under a number."""
        return replace(self, statements={**self.statements, number: part})

    def with_inputs(self, change: Callable[[int, InputRecord], InputRecord | None]) -> Draft:
        """Return the draft with each input changed, or removed where `change` returns None."""
        changed = {number: change(number, record) for number, record in self.inputs.items()}
        return replace(self, inputs={number: record for number, record in changed.items() if record is not None})

    @property
    def content(self) -> Hashable:
        """The statements and inputs, equal for drafts that run alike."""
        return tuple(part.text for part in self.statements.values()), repr(tuple(self.inputs.values()))

    @property
    def size(self) -> int:
        """The number of characters of statements and inputs, by which drafts compare."""
        return sum(len(part.text) for part in self.statements.values()) + sum(
            len(repr((record.key, record.value, record.cells, record.headers))) + 40 for record in self.inputs.values()
        )
