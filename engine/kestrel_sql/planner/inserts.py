"""Plans INSERT INTO: resolves the columns of VALUES, and checks the result of a SELECT against the target."""

from __future__ import annotations

import msgspec

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import Span, StatementError, TargetError, UnknownColumnError, column_hint, other_case
from kestrel_sql.formats.format import column_list
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.internal_topics import check_writable
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import InsertValues, SourceKind
from kestrel_sql.sql.nodes.walk import column_refs
from kestrel_sql.types.conversion import can_implicitly_cast
from kestrel_sql.types.schema import PSEUDO_COLUMNS, ROWTIME, WINDOW_BOUNDS, Column, Role, Schema
from kestrel_sql.types.sql_types import quote


class ResolvedInsert(msgspec.Struct, frozen=True, kw_only=True):
    """One record to write; columns of `source` that are not in `values` are NULL.

    `timestamp` is the record's time, BIGINT ms or a timestamp string; None means now.
    """

    source: Source
    values: tuple[tuple[Column, Expression], ...]
    timestamp: Expression | None = None


def plan_insert_values(statement: InsertValues, catalog: Catalog, config: Config) -> ResolvedInsert:
    """Resolve the columns of INSERT VALUES; the values stay expressions, which `session.insert_values` evaluates.

    Raises:
        UnknownSourceError: the stream or table does not exist.
        UnknownColumnError: a column does not exist.
        StatementError: the source or a column is not writable, a table's key is missing, or the numbers of columns and
            values differ.
    """
    if not config.flag("ksql.insert.into.values.enabled"):
        raise StatementError("The server has disabled INSERT INTO ... VALUES functionality.", span=statement.span)
    source = writable_source(statement.target, catalog, config, statement.span)
    columns = _targets(statement, source)
    headers = [column.name for column in columns if column.role is Role.HEADERS]
    if headers:
        raise StatementError(f"Cannot insert into HEADER columns: {', '.join(headers)}", span=statement.span)
    if len(columns) != len(statement.values):
        names = ", ".join(quote(column.name) for column in columns)
        raise StatementError(
            f"Expected a value for each column. Expected Columns: [{names}]. Got {len(statement.values)} value(s).",
            span=statement.span,
        )
    _check_key(source, columns)
    for value in statement.values:
        _check_constant(value)
    pairs = tuple(zip(columns, statement.values, strict=True))
    return ResolvedInsert(
        source=source,
        values=tuple(pair for pair in pairs if pair[0] is not ROWTIME),
        timestamp=next((value for column, value in pairs if column is ROWTIME), None),
    )


def writable_source(name: str, catalog: Catalog, config: Config, span: Span | None = None) -> Source:
    """The stream or table that rows are to be inserted into.

    Raises:
        TargetError: it does not exist, is read-only or windowed.
        StatementError: its topic is internal.
    """
    source = catalog.sources.get(name)
    if source is None:
        message = f"Cannot insert values into an unknown stream/table: {quote(name)}"
        raise catalog.missing_source(message, name, span, TargetError)
    if source.is_source:
        raise TargetError(f"Cannot insert values into read-only {source.kind.value.lower()}: {source.name}", span=span)
    if source.window is not None:
        raise TargetError(f"Cannot insert values into windowed stream/table: {source.name}", span=span)
    check_writable(source.topic, config, span)
    return source


def _targets(statement: InsertValues, source: Source) -> tuple[Column, ...]:
    if not statement.columns:
        return source.schema.keys_first
    if len(set(statement.columns)) < len(statement.columns):
        raise StatementError(
            f"A column is listed more than once: {', '.join(map(quote, statement.columns))}", span=statement.span
        )
    return tuple(_target(name, statement, source) for name in statement.columns)


def _target(name: str, statement: InsertValues, source: Source) -> Column:
    column = source.schema.find(name)
    if column is not None:
        return column
    if name == ROWTIME.name:
        return ROWTIME
    if name in {system.name for system in (*PSEUDO_COLUMNS[1], *WINDOW_BOUNDS)}:
        raise StatementError(f"Inserting into column {quote(name)} is not allowed.", span=statement.span)
    known = [column.name for column in source.schema.columns]
    message = f"Column name {quote(name)} does not exist.{other_case(name, known, 'column')}"
    raise UnknownColumnError(message, span=statement.span, hint=column_hint(name, known))


def _check_key(source: Source, columns: tuple[Column, ...]) -> None:
    missing = [column.name for column in source.schema.key if column not in columns]
    if source.kind is SourceKind.TABLE and missing:
        raise StatementError(f"Value for primary key column(s) {', '.join(map(quote, missing))} is required for tables")


def _check_constant(value: Expression) -> None:
    for reference in column_refs(value):
        if reference.qualifier is not None:
            raise StatementError(
                f"Failed to prepare statement: '{reference.qualifier}' is not a valid stream/table name or alias.",
                span=reference.span,
            )
        raise StatementError(
            f"Column {quote(reference.name)} cannot be resolved: VALUES has no columns to refer to.",
            span=reference.span,
            hint="write strings in single quotes",
        )


def check_insert_target(sink: Source) -> None:
    """Check that INSERT INTO … SELECT may write to `sink`.

    Raises:
        StatementError: it is a table, is read-only, or has header columns.
    """
    if sink.kind is SourceKind.TABLE:
        raise StatementError(f"INSERT INTO can only be used to insert into a stream. {sink.name} is a table.")
    if sink.is_source:
        raise TargetError(f"Cannot insert into read-only stream: {sink.name}")
    if sink.schema.headers:
        raise StatementError(f"Cannot insert into {sink.name} because it has header columns")


def check_insert(result: Schema, sink: Source) -> None:
    """Check the result of a SELECT against `sink`: names, roles and types must match column by column.

    Raises:
        StatementError: the sink is not writable, or the schemas do not match (rules N10).
    """
    check_insert_target(sink)
    wanted = sink.schema.keys_first
    fits = len(result.columns) == len(wanted) and all(map(_fits, result.columns, wanted))
    if not fits:
        raise StatementError(
            f"Incompatible schema between results and sink.\nResult schema is {result}\nSink schema is {sink.schema}",
            hint=f"the columns of {sink.name} are {column_list(wanted)}; alias the selected expressions accordingly",
        )


def _fits(column: Column, wanted: Column) -> bool:
    return (column.name, column.role) == (wanted.name, wanted.role) and can_implicitly_cast(column.type, wanted.type)
