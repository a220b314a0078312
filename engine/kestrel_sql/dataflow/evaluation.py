"""Evaluates the expressions of a step over its rows, closes their error scopes and logs what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.dataflow.log_entries import PROCESSING, json_row
from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Cells, Entry, Indices, Log, Part, Rows
from kestrel_sql.expressions.columns import Column, Columns, Evaluate, Failures, Report, lazy_columns, unreported
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.expressions.sendable import Compiled
from kestrel_sql.expressions.user_calls import UserFunctionError
from kestrel_sql.formats.serde import describe
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.step import Step
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, Node
from kestrel_sql.types.schema import Column as SchemaColumn


class StepLog(msgspec.Struct, frozen=True):
    """The processing log of a step."""

    logger: str
    logs_rows: bool

    @classmethod
    def of(cls, query: Query, step: Step) -> StepLog:
        """Return the log of a step."""
        return cls(query.logger(step), query.logs_rows)

    def failed(
        self, log: Log, rows: Rows, at: int, message: str, error: Exception | None = None, kind: int = PROCESSING
    ) -> None:
        """Log that a row failed; of errors only those of a user's function are named as the cause."""
        cause = (describe(error),) if isinstance(error, UserFunctionError) else ()
        shown = None
        if self.logs_rows and rows.value.has(at):
            shown = json_row(cells.values()[at] for cells in rows.value.cells)
        log.add(rows, at, Entry(kind=kind, logger=self.logger, message=message, cause=cause, record=shown))


class Expressions:
    """The expressions of a step over the columns of its source."""

    def __init__(
        self, query: Query, source: Relation, *, nested: bool, columns: Sequence[SchemaColumn] | None = None
    ) -> None:
        """Take the query and the relation, and `columns` in place of those of its value, such as the key's."""
        chosen = source.schema.value if columns is None else columns
        self._query = query
        self.scope = Scope(tuple(column.name for column in chosen))
        self._types = scope_of(source.schema) if columns is None else {column.name: column.type for column in chosen}
        self._options = Options(
            nested=nested and query.flag("ksql.nested.error.set.null"),
            preserve_nulls=query.flag("ksql.cast.strings.preserve.nulls"),
            settings=query.function_settings,
        )

    def bind(self, expression: Expression) -> Bound:
        """Bind an expression to the columns."""
        return self._query.bind(expression, self._types)

    def compiled(self, expression: Expression) -> Compiled:
        """Bind and compile an expression."""
        return self.of(self.bind(expression))

    def of(self, bound: Bound) -> Compiled:
        """Compile a bound expression."""
        return Compiled(bound, self._options)


class Scope(msgspec.Struct, frozen=True):
    """The names of the columns that expressions are over."""

    names: tuple[str, ...]

    def columns(self, cells: Sequence[Cells], size: int, at: Indices, report: Report = unreported) -> Columns:
        """Return the columns of the rows at some indices among `size`."""
        places = {name: place for place, name in enumerate(self.names)}

        def take(name: str) -> Column:
            values = cells[places[name]].values()
            return values if len(at) == size else [values[each] for each in at]

        def array(name: str) -> ArrowArray | None:
            return cells[places[name]].array

        whole = len(at) == size and any(each.array is not None for each in cells)
        return Columns(lazy_columns(take), len(at), report, arrays=array if whole else None)

    def of_part(self, part: Part, at: Indices, report: Report = unreported) -> Columns:
        """Return the columns of a part of some rows."""
        return self.columns(part.cells, part.size, at, report)


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


def reports(log: StepLog, made: Log, rows: Rows, own: Indices) -> Report:
    """Return the port for the error scopes inside the expressions over some rows."""
    return lambda at, message, error: log.failed(made, rows, own[at], message, error)


def spread(values: Column, own: Indices, size: int) -> Column:
    """Return the values of some rows among all, NULL in the others."""
    if len(own) == size:
        return values
    found: Column = [None] * size
    for at, value in zip(own, values, strict=True):
        found[at] = value
    return found


def references(node: object) -> Iterator[str]:
    """Yield the names of the columns of an expression."""
    if isinstance(node, ColumnRef):
        yield node.name
    elif isinstance(node, tuple):
        for item in node:
            yield from references(item)
    elif isinstance(node, Node):
        for field in node.__struct_fields__:
            yield from references(getattr(node, field))
