"""Executes INSERT VALUES: evaluates constants, coerces them to their columns and encodes a record."""

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
from kestrel_sql.types.sql_types import BIGINT, STRING

Evaluate = Callable[[Sequence[Bound]], list[object]]
"""Returns the values of bound expressions that name no columns."""


@dataclass(slots=True)
class Constants:
    """Evaluates constants: literals and constructors itself, all other expressions with one call of `evaluate`."""

    functions: Registry
    evaluate: Evaluate
    _others: list[Bound] = field(default_factory=list)

    def values(self, expressions: Sequence[Expression]) -> list[tuple[Bound, object]]:
        """Return each expression with its type and value.

        Raises:
            StatementError: an expression has a type error, or its evaluation fails.
        """
        bounds = [self._bound(expression) for expression in expressions]
        self._others = []
        builders = [self._builder(bound) for bound in bounds]
        evaluated = self.evaluate(self._others) if self._others else []
        return [(bound, build(evaluated)) for bound, build in zip(bounds, builders, strict=True)]

    def _bound(self, expression: Expression) -> Bound:
        return bind(expression, {}, self.functions)

    def _builder(self, bound: Bound) -> Callable[[list[object]], object]:
        """Return a function that builds the value of a node from the values that `evaluate` returned."""
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
                return lambda evaluated: literal
            case NullLiteral() | Cast(NullLiteral()):
                return lambda evaluated: None
            case Negate(IntegerLiteral() | LongLiteral() | DecimalLiteral() | DoubleLiteral() as number):
                negative = -number.value
                return lambda evaluated: negative
            case ArrayConstructor():
                items = [self._builder(child) for child in bound.children]
                return lambda evaluated: [item(evaluated) for item in items]
            case MapConstructor():
                # The children are key, value, key, value.
                keys = [self._builder(child) for child in bound.children[::2]]
                values = [self._builder(child) for child in bound.children[1::2]]
                return lambda evaluated: {
                    _map_key(key(evaluated)): value(evaluated) for key, value in zip(keys, values, strict=True)
                }
            case StructConstructor():
                names = [name for name, _ in node.fields]
                fields = dict(zip(names, [self._builder(child) for child in bound.children], strict=True))
                return lambda evaluated: {name: build(evaluated) for name, build in fields.items()}
            case _:
                self._others.append(bound)
                index = len(self._others) - 1
                return lambda evaluated: evaluated[index]


def _map_key(key: object) -> object:
    """Return the key; NULL becomes the string "null", as in Java's JSON writers."""
    return "null" if key is None else key


def insert_record(
    insert: ResolvedInsert, constants: Constants, serde: Callable[[SerdeSpec], SerdeSpec], now: Callable[[], int]
) -> Record:
    """Return the record that an INSERT VALUES produces.

    `now` returns the timestamp (ms) of a record without ROWTIME. Columns that are not listed are NULL. The value is a
    tombstone only if its format writes NULL as null bytes.

    Raises:
        TypeMismatchError: a value does not fit its column.
        StatementError: an expression cannot be evaluated.
        SerdeError: the format cannot encode the row.
    """
    expressions = [expression for _, expression in insert.values]
    if insert.timestamp is not None:
        expressions.append(insert.timestamp)
    values = constants.values(expressions)
    row: dict[str, object] = {}
    for (column, _), (bound, value) in zip(insert.values, values, strict=False):
        row[column.name] = coerce_value(value, bound.type, column)
    timestamp = now() if insert.timestamp is None else _timestamp(*values[-1])
    return SourceRecords.of(insert.source, serde).from_row(row, timestamp)


def _timestamp(bound: Bound, value: object) -> int:
    if bound.type == STRING and isinstance(value, str):
        return parse_partial_timestamp(value)
    milliseconds = coerce_value(value, bound.type, Column("ROWTIME", BIGINT))
    if not isinstance(milliseconds, int) or milliseconds < 0:
        needed = "ROWTIME must be milliseconds since 1970"
        raise TypeMismatchError(f"{needed}, not {value}", span=bound.node.span, public=needed)
    return milliseconds
