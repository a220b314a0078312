"""Executes INSERT VALUES: evaluates constants, coerces them to their columns and encodes a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.expressions.single_row import evaluate_constants
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.registry import Registry
from kestrel_sql.planner.expressions.insert_coercion import coerce_value
from kestrel_sql.planner.expressions.timestamp_literals import parse_partial_timestamp
from kestrel_sql.planner.inserts import ResolvedInsert
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, STRING


class Constants(msgspec.Struct, frozen=True):
    """Evaluates constants with the functions and settings of a session."""

    functions: Registry
    settings: Mapping[str, str]

    def values(self, expressions: Sequence[Expression]) -> list[tuple[Bound, object]]:
        """Return each expression with its type and value.

        Raises:
            StatementError: an expression has a type error, or its evaluation fails.
        """
        bounds = [bind(expression, {}, self.functions) for expression in expressions]
        return list(zip(bounds, evaluate_constants(bounds, self.settings), strict=True))


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
