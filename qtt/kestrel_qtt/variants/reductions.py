"""The ways to make a draft of a case smaller; each is tried by itself, and those that work are combined."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, InputRecord, Json
from kestrel_qtt.drivers.declared_topics import topic_of
from kestrel_qtt.variants.changes import one_less
from kestrel_qtt.variants.nodes import nodes
from kestrel_qtt.variants.pruning import unneeded
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.nodes.expressions import Node
from kestrel_sql.sql.parse.parser import parse_script


class Part(msgspec.Struct, frozen=True):
    """A statement: its tree, and its text, which is the original one until the tree changes."""

    statement: Node
    text: str

    @staticmethod
    def of(statement: Node) -> Part:
        """Return the part of a changed statement, on one line unless a string holds a line feed."""
        text = format_statement(statement).rstrip(";") + ";"  # type: ignore[arg-type]
        in_strings = "".join(text.split("'")[1::2])
        return Part(statement, text if "\n" in in_strings else re.sub(r"\n\s*", " ", text))


class Draft(msgspec.Struct, frozen=True):
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


Reduction = Callable[[Draft], Draft]
"""Returns a smaller draft, or the same one where there is nothing to reduce."""


def reductions(draft: Draft) -> Iterator[Reduction]:
    """Yield all reductions of a draft."""
    for kind in (without_queries, without_inputs, without_columns, smaller_statements, smaller_values):
        yield from kind(draft)


def without_queries(draft: Draft) -> Iterator[Reduction]:
    """Yield the removal of all that a query does not need, for each query, and that of each statement."""
    statements = [part.statement for part in draft.statements.values()]
    numbers = list(draft.statements)
    for index in range(len(numbers)):
        yield partial(_without_statements, numbers=frozenset(numbers[gone] for gone in unneeded(statements, index)))
    for number in reversed(numbers):
        yield partial(_without_statements, numbers=frozenset([number]))


def _without_statements(draft: Draft, numbers: frozenset[int]) -> Draft:
    return replace(draft, statements={each: part for each, part in draft.statements.items() if each not in numbers})


def without_inputs(draft: Draft) -> Iterator[Reduction]:
    """Yield the removal of each run of inputs: halves, quarters, and so on down to single records."""
    numbers = list(draft.inputs)
    length = (len(numbers) + 1) // 2
    while length:
        for start in range(0, len(numbers), length):
            yield partial(_without_inputs, numbers=frozenset(numbers[start : start + length]))
        length //= 2


def _without_inputs(draft: Draft, numbers: frozenset[int]) -> Draft:
    return draft.with_inputs(lambda number, record: None if number in numbers else record)


def without_columns(draft: Draft) -> Iterator[Reduction]:
    """Yield the removal of each column of a declared source, in its records too."""
    for number, part in draft.statements.items():
        if isinstance(part.statement, s.CreateSource):
            topic = topic_of(part.statement).name
            for element in part.statement.elements:
                yield partial(_without_column, number=number, column=element.name, topic=topic)


def _without_column(draft: Draft, number: int, column: str, topic: str) -> Draft:
    part = draft.statements.get(number)
    if part is None or not isinstance(part.statement, s.CreateSource):
        return draft
    elements = tuple(element for element in part.statement.elements if element.name != column)
    changed = draft.with_statement(number, Part.of(replace(part.statement, elements=elements)))
    return changed.with_inputs(lambda _, record: _without_member(record, column) if record.topic == topic else record)


def _without_member(record: InputRecord, column: str) -> InputRecord:
    return replace(
        record,
        key=_dropped(record.key, column),
        value=_dropped(record.value, column),
        cells=_dropped(record.cells, column),
    )


def _dropped(value: Any, column: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: member for name, member in value.items() if name.upper() != column.upper()}


def smaller_statements(draft: Draft) -> Iterator[Reduction]:
    """Yield each smaller form of a query: a clause or item less, or an expression in place of one around it."""
    for number, part in draft.statements.items():
        if isinstance(part.statement, s.CreateAs | s.InsertInto):
            for node, rebuild in nodes(part.statement):
                for smaller in _smaller(node):
                    yield partial(_with_statement, number=number, before=part, after=Part.of(rebuild(smaller)))


def _with_statement(draft: Draft, number: int, before: Part, after: Part) -> Draft:
    # Two reductions of one statement do not combine; the next round finds the second one again.
    return draft.with_statement(number, after) if draft.statements.get(number) is before else draft


def _smaller(node: e.Node) -> Iterator[e.Node]:
    match node:
        case s.Query():
            yield from _smaller_query(node)
        case e.FunctionCall(_, arguments):
            yield from (each for each in arguments if not isinstance(each, e.Lambda | e.IntervalUnit))
        case e.Logical(_, left, right) | e.Arithmetic(_, left, right):
            yield from (left, right)
        case e.Not(operand) | e.Negate(operand) | e.Cast(operand):
            yield operand
        case e.Case(branches, default):
            yield from (branch.result for branch in branches)
            if default is not None:
                yield from (default, replace(node, default=None))
            if len(branches) > 1:
                yield from (replace(node, branches=fewer) for fewer in one_less(branches))
        case e.InList(_, items) if len(items) > 1:
            yield from (replace(node, items=fewer) for fewer in one_less(items))
        case _:
            pass


def _smaller_query(node: s.Query) -> Iterator[e.Node]:
    if len(node.select) > 1:
        for index, fewer in enumerate(one_less(node.select)):
            yield replace(node, select=node.select[index : index + 1])
            yield replace(node, select=fewer)
    for clause in ("where", "having", "window", "partition_by", "emit", "limit"):
        if getattr(node, clause) is not None:
            yield replace(node, **{clause: None})
    yield from (replace(node, joins=fewer) for fewer in one_less(node.joins))
    if node.group_by is not None and len(node.group_by) > 1:
        yield from (replace(node, group_by=fewer) for fewer in one_less(node.group_by))


def smaller_values(draft: Draft) -> Iterator[Reduction]:
    """Yield smaller headers, strings and numbers of each input."""
    for number, record in draft.inputs.items():
        if record.headers:
            yield partial(_without_headers, number=number)
        if isinstance(record.value, Mapping):
            for name, value in record.value.items():
                for smaller in _simpler(value):
                    yield partial(_with_member, number=number, name=name, before=value, after=smaller)


def _without_headers(draft: Draft, number: int) -> Draft:
    return draft.with_inputs(lambda each, record: replace(record, headers=()) if each == number else record)


def _with_member(draft: Draft, number: int, name: str, before: Json, after: Json) -> Draft:
    def changed(each: int, record: InputRecord) -> InputRecord:
        value = record.value
        if each != number or not isinstance(value, Mapping) or value.get(name) is not before:
            return record
        return replace(record, value={**value, name: after})

    return draft.with_inputs(changed)


def _simpler(value: Json) -> Iterator[Json]:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, str):
        yield from (text for text in ("", value[:1]) if text != value)
    elif isinstance(value, int | Decimal):
        yield from (number for number in (0, 1) if number != value)
    elif isinstance(value, list) and value:
        yield []
        if len(value) > 1:
            yield value[:1]
    elif isinstance(value, Mapping) and value:
        yield {}
