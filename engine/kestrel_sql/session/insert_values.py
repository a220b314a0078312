"""INSERT VALUES carried out: constants evaluated, coerced to their columns and encoded as a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.registry import Registry
from kestrel_sql.planner.expressions.insert_coercion import coerce_value
from kestrel_sql.planner.expressions.timestamp_literals import parse_partial_timestamp
from kestrel_sql.planner.inserts import ResolvedInsert
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.sql.nodes.expressions import (
    ArrayConstructor,
    BooleanLiteral,
    Cast,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    IntegerLiteral,
    LongLiteral,
    MapConstructor,
    Negate,
    NullLiteral,
    StringLiteral,
    StructConstructor,
)
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, STRING, Struct

Evaluate = Callable[[Sequence[Bound]], list[object]]
"""Gives the values of bound expressions that have no columns."""


@dataclass(slots=True)
class Constants:
    """Evaluates constants: literals and constructors here, everything else in one go by `evaluate`."""

    functions: Registry
    evaluate: Evaluate
    _others: list[Bound] = field(default_factory=list)

    def values(self, expressions: Sequence[Expression]) -> list[tuple[Bound, object]]:
        """Give each expression with its type and value.

        Raises:
            StatementError: an expression that is not well typed, or that fails.
        """
        bounds = [self._bound(expression) for expression in expressions]
        self._others = []
        shapes = [self._shape(bound) for bound in bounds]
        found = self.evaluate(self._others) if self._others else []
        return [(bound, shape(found)) for bound, shape in zip(bounds, shapes, strict=True)]

    def _bound(self, expression: Expression) -> Bound:
        # A query may not have a STRUCT without fields; here it stands for one whose fields are all NULL.
        if expression == StructConstructor(()):
            return Bound(expression, Struct(()))
        return bind(expression, {}, self.functions)

    def _shape(self, bound: Bound) -> Callable[[list[object]], object]:
        """How the value of a node is made from the values of the parts that `evaluate` knows."""
        node = bound.node
        match node:
            case (
                BooleanLiteral()
                | IntegerLiteral()
                | LongLiteral()
                | DecimalLiteral()
                | DoubleLiteral()
                | StringLiteral()
            ):
                literal = node.value
                return lambda found: literal
            case NullLiteral() | Cast(NullLiteral()):
                return lambda found: None
            case Negate(IntegerLiteral() | LongLiteral() | DecimalLiteral() | DoubleLiteral() as number):
                negative = -number.value
                return lambda found: negative
            case ArrayConstructor():
                items = [self._shape(child) for child in bound.children]
                return lambda found: [item(found) for item in items]
            case MapConstructor():
                parts = [self._shape(child) for child in bound.children]
                # The entries of a map are written as key, value, key, value.
                return lambda found: {
                    _map_key(key(found)): value(found) for key, value in zip(parts[::2], parts[1::2], strict=True)
                }
            case StructConstructor():
                fields = [
                    (name, self._shape(child)) for (name, _), child in zip(node.fields, bound.children, strict=True)
                ]
                return lambda found: {name: part(found) for name, part in fields}
            case _:
                self._others.append(bound)
                at = len(self._others) - 1
                return lambda found: found[at]


def _map_key(key: object) -> object:
    """A NULL key is written as its text, as Java's JSON writers do."""
    return "null" if key is None else key


def insert_record(
    insert: ResolvedInsert, constants: Constants, serde: Callable[[SerdeSpec], SerdeSpec], now: Callable[[], int]
) -> Record:
    """Make the record that an INSERT VALUES produces; `now` gives the time (ms) of one that lists no ROWTIME.

    Columns that are not listed are NULL. A value is never a tombstone unless its format writes NULL as nothing.

    Raises:
        TypeMismatchError: a value that does not fit its column.
        StatementError: an expression that cannot be evaluated.
        SerdeError: the format cannot hold the row.
    """
    expressions = [expression for _, expression in insert.values]
    if insert.timestamp is not None:
        expressions.append(insert.timestamp)
    found = constants.values(expressions)
    row: dict[str, object] = {}
    for (column, _), (bound, value) in zip(insert.values, found, strict=False):
        row[column.name] = coerce_value(value, bound.type, column)
    timestamp = now() if insert.timestamp is None else _timestamp(*found[-1])
    return SourceRecords.of(insert.source, serde).from_row(row, timestamp)


def _timestamp(bound: Bound, value: object) -> int:
    if bound.type == STRING and isinstance(value, str):
        return parse_partial_timestamp(value)
    milliseconds = coerce_value(value, bound.type, Column("ROWTIME", BIGINT))
    if not isinstance(milliseconds, int) or milliseconds < 0:
        raise TypeMismatchError(f"ROWTIME must be a time in milliseconds since 1970, not {value}", span=bound.node.span)
    return milliseconds
