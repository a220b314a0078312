"""Evaluates the expressions of a step over its rows, closes their error scopes and logs what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.log_entries import PROCESSING, json_row
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Made, Row
from kestrel_sql.expressions.columns import Column, Columns, Evaluate, Failures, Report, columns_of_rows, unreported
from kestrel_sql.expressions.compiler import Options, compile_expression
from kestrel_sql.expressions.user_calls import UserFunctionError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.operators.operator import Value
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression
from kestrel_sql.types.schema import Column as SchemaColumn

Rows = Sequence[Row]
Values = Sequence[Value]


@dataclass(frozen=True, slots=True)
class StepLog:
    """The processing log of a step."""

    logger: str
    logs_rows: bool

    def failed(
        self, made: Made, row: Row, message: str, error: Exception | None = None, kind: int = PROCESSING
    ) -> None:
        """Log that a row failed; of errors only those of a user's function are named as the cause."""
        cause = [str(error)] if isinstance(error, UserFunctionError) else []
        made.log(row, kind, self.logger, message, cause, self._shown(row))

    def _shown(self, row: Row) -> str | None:
        return json_row(row.value) if self.logs_rows and row.value is not None else None


class Expressions:
    """The expressions of a step over the columns of its source."""

    def __init__(
        self, query: GraphQuery, source: Relation, *, nested: bool, columns: Sequence[SchemaColumn] | None = None
    ) -> None:
        """Take the query and the relation, and `columns` in place of those of its value, such as the key's."""
        chosen = source.schema.value if columns is None else columns
        self._query = query
        self.names = tuple(column.name for column in chosen)
        self._scope = scope_of(source.schema) if columns is None else {column.name: column.type for column in chosen}
        self._options = Options(
            nested=nested and query.flag("ksql.nested.error.set.null"),
            preserve_nulls=query.flag("ksql.cast.strings.preserve.nulls"),
            settings=query.function_settings,
        )

    def bind(self, expression: Expression) -> Bound:
        """Bind an expression to the columns."""
        return self._query.bind(expression, self._scope)

    def compiled(self, expression: Expression) -> Evaluate:
        """Bind and compile an expression."""
        return self.of(self.bind(expression))

    def of(self, bound: Bound) -> Evaluate:
        """Compile a bound expression."""
        return compile_expression(bound, self._options)

    def columns(self, values: Values, report: Report = unreported) -> Columns:
        """Return the columns of some rows."""
        return Columns(columns_of_rows(self.names, values), len(values), report)


def closed(
    evaluate: Evaluate, columns: Columns, failed: Callable[[int, Exception], None] = lambda at, error: None
) -> Column:
    """Evaluate, and return NULL where the expression fails; `failed` is told of it."""
    failures: Failures = {}
    found = evaluate(columns, failures)
    if not failures:
        return found
    found = [*found]
    for at in sorted(failures):
        found[at] = None
        failed(at, failures[at])
    return found


def reports(log: StepLog, made: Made, rows: Rows) -> Report:
    """Return the port for the error scopes inside the expressions over some rows."""
    return lambda at, message, error: log.failed(made, rows[at], message, error)


def references(node: object) -> Iterator[str]:
    """Yield the names of the columns of an expression."""
    if isinstance(node, ColumnRef):
        yield node.name
    elif isinstance(node, tuple):
        for item in node:
            yield from references(item)
    elif hasattr(node, "__dataclass_fields__"):
        for field in node.__dataclass_fields__:
            yield from references(getattr(node, field))


def with_present(
    values: Sequence[Value | None], compute: Callable[[list[int], list[Value]], Sequence[Any]]
) -> list[Any]:
    """Compute something of the rows that are not NULL; `compute` gets their indices and values, others give None."""
    at = [index for index, value in enumerate(values) if value is not None]
    if not at:
        return [None] * len(values)
    given = [value for value in values if value is not None]
    made = compute(at, given)
    if len(at) == len(values):
        return list(made)
    found: list[Any] = [None] * len(values)
    for index, value in zip(at, made, strict=True):
        found[index] = value
    return found
