"""Checks and plans pull queries.

`kestrel_sql.queries.pull_state` answers them from the state of the query that materialises the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.dataflow.ingestion import NULL_KEY
from kestrel_sql.dataflow.log_entries import DESERIALIZATION, FATAL
from kestrel_sql.errors import QueryError, Span, StatementError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.planner.analysis.scope import unknown_source
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.queries.pull_rules import KeyRules, check_in_lists, check_operands, unqualified
from kestrel_sql.queries.transient import QueryKind, TransientQuery, plan_query
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import Query, SelectAll, SelectExpression, SelectStructAll, SourceKind
from kestrel_sql.sql.nodes.walk import calls, column_refs
from kestrel_sql.topics.records import LogEntry, Record
from kestrel_sql.types.schema import ROWOFFSET, ROWPARTITION, WINDOW_BOUNDS, Column, Role
from kestrel_sql.types.sql_types import quote

_MORE = " See https://cnfl.io/queries for more info."
_PUSH_HINT = "\nAdd EMIT CHANGES if you intended to issue a push query."
_REFUSED_COLUMNS = (ROWPARTITION.name, ROWOFFSET.name)


def plan_pull(query: Query, catalog: Catalog, config: Config, query_id: str, functions: Registry) -> TransientQuery:
    """Check and plan a pull query (rules L5).

    Raises:
        UnknownSourceError: the source does not exist.
        StatementError: pull queries do not support a clause or column, or no query materialises the table.
    """
    _check_clauses(query, config)
    source = catalog.sources.get(query.source.name)
    if source is None:
        raise unknown_source(query.source.name, catalog, query.source.span)
    _check_columns(query)
    _check_calls(query, source, functions)
    _check_queryable(source, query, config)
    if source.kind is SourceKind.TABLE and query.where is not None:
        check_operands(unqualified(query.where), source, Types(functions, config))
    # Each key has one row, so the plan can be that of a stream, without old rows.
    rows = replace(source, kind=SourceKind.STREAM)
    kind = QueryKind.PULL_STREAM if source.kind is SourceKind.STREAM else QueryKind.PULL_TABLE
    view = Catalog(MappingProxyType({**catalog.sources, source.name: rows}), catalog.types)
    planned = plan_query(query, view, config, query_id, functions, kind=kind, source=source.name)
    if kind is QueryKind.PULL_STREAM:
        return planned
    _check_star(query)
    where = None if query.where is None else unqualified(query.where)
    if where is not None:
        check_in_lists(where, source.schema.key)
    KeyRules.of(source.schema.key, config, windowed=source.window is not None).check(where)
    return replace(planned, columns=_marked(planned, source, query), where=where)


def schema_text(columns: Sequence[Column]) -> str:
    """Write the columns of an answer as its header does: marked headers stand before the values (rules R9.1)."""
    if any(column.role is Role.HEADERS for column in columns):
        columns = sorted(columns, key=lambda column: (Role.KEY, Role.HEADERS, Role.VALUE).index(column.role))
    return ", ".join(map(str, columns))


def materialises(plan: QueryPlan, source: Source) -> bool:
    """Return whether a persistent query materialises a table: it is that of its CREATE AS or CREATE SOURCE TABLE."""
    if source.created_by is not None:
        return plan.query_id == source.created_by
    return source.is_source and plan.sink is None and plan.sources == (source.name,)


def _check_clauses(query: Query, config: Config) -> None:
    if not config.flag("ksql.query.pull.enable"):
        raise StatementError("Pull queries are disabled.", span=query.span, hint="set ksql.query.pull.enable to true")
    clauses = {
        "JOIN": query.joins or None,
        "WINDOW": query.window,
        "GROUP BY": query.group_by,
        "PARTITION BY": query.partition_by,
        "HAVING": query.having,
    }
    for name, given in clauses.items():
        if given is not None:
            raise StatementError(f"Pull queries don't support {name} clauses.{_MORE}{_PUSH_HINT}", span=query.span)
    if query.limit is None:
        return
    if not config.flag("ksql.query.pull.limit.clause.enabled"):
        raise StatementError(
            "LIMIT clause in pull queries is currently disabled. You can enable them by setting "
            f"ksql.query.pull.limit.clause.enabled=true.{_MORE}{_PUSH_HINT}",
            span=query.span,
        )
    if query.limit < 0:
        raise StatementError(
            f"Pull queries don't support negative integers in the LIMIT clause.{_MORE}{_PUSH_HINT}", span=query.span
        )


def _check_columns(query: Query) -> None:
    selected = (item.expression for item in query.select if isinstance(item, SelectExpression | SelectStructAll))
    _refuse_columns(selected, "SELECT")
    if query.where is not None:
        _refuse_columns((query.where,), "WHERE")


def _check_star(query: Query) -> None:
    if len(query.select) > 1 and any(isinstance(item, SelectAll) for item in query.select):
        message = "Pull queries only support wildcards in the projects if they are the only expression"
        raise StatementError(message, span=query.span, hint="name the columns")


def _check_calls(query: Query, source: Source, functions: Registry) -> None:
    """Refuse aggregates, which would need a GROUP BY, and table functions over tables (rules L9)."""
    for expression in (item.expression for item in query.select if isinstance(item, SelectExpression)):
        for call in calls(expression, functions.is_aggregate):
            hint = f"a table that is made by SELECT {format_expression(call)} … GROUP BY … can be asked for its rows"
            raise StatementError(
                f"Pull queries don't support aggregate functions.{_MORE}{_PUSH_HINT}", span=call.span, hint=hint
            )
        if source.kind is SourceKind.TABLE and next(calls(expression, functions.is_table_function), None) is not None:
            raise StatementError("Table source is not supported with table functions", span=expression.span)


def _refuse_columns(expressions: Iterable[Expression], clause: str) -> None:
    found = [ref for expression in expressions for ref in column_refs(expression) if ref.name in _REFUSED_COLUMNS]
    if found:
        names = ", ".join(dict.fromkeys(quote(ref.name) for ref in found))
        raise StatementError(
            f"Pull queries don't support the following columns in {clause} clauses: {names}", span=found[0].span
        )


def _check_queryable(source: Source, query: Query, config: Config) -> None:
    if source.kind is SourceKind.STREAM:
        if not config.flag("ksql.query.pull.stream.enabled"):
            hint = "set ksql.query.pull.stream.enabled to true"
            raise StatementError("Pull queries on streams are disabled.", span=query.span, hint=hint)
        return
    if source.created_by is None and not (
        source.is_source and config.flag("ksql.source.table.materialization.enabled")
    ):
        raise not_queryable(source, query.source.span)


def not_queryable(source: Source, span: Span | None) -> StatementError:
    """Return the error for a table that no query materialises, with the statement that would do so."""
    return StatementError(
        f"The {quote(source.name)} table isn't queryable. To derive a queryable table, you can do "
        f"'CREATE TABLE QUERYABLE_{source.name} AS SELECT * FROM {source.name}'.{_MORE}{_PUSH_HINT}",
        span=span,
    )


def _marked(planned: TransientQuery, source: Source, query: Query) -> tuple[Column, ...]:
    """The columns of the answer with their roles: keys, and headers that come from a star."""
    star = any(isinstance(item, SelectAll) for item in query.select)
    headers = {column.name: column for column in source.schema.headers} if star else {}
    keys = {column.name for column in source.schema.key} | {column.name for column in WINDOW_BOUNDS}
    pairs = zip(planned.columns, planned.from_key, strict=True)
    return tuple(
        replace(column, role=Role.KEY) if origin in keys else headers.get(column.name, column)
        for column, origin in pairs
    )


def check_no_null_key(records: Iterable[Record], source: Source) -> None:
    """Refuse to answer from an UPSERT or DEBEZIUM source with a NULL key that is not retracted (rules K1.4).

    Raises:
        QueryError: the last message with a NULL key has a value.
    """
    if source.ingestion is None:
        return
    last = next((record for record in reversed(list(records)) if record.key is None), None)
    if last is not None and last.value is not None:
        raise QueryError(
            f"{NULL_KEY} ({last.topic}-{last.partition} at offset {last.offset})",
            hint="the other rows can be read again after that",
        )


def standing_error(log: Iterable[LogEntry], source: Source | None) -> LogEntry | None:
    """Return the first log entry that prevents an answer.

    Of a failed query, or of an unreadable row of an UPSERT source.
    """
    kinds = (DESERIALIZATION, FATAL) if source is not None and source.ingestion is not None else (FATAL,)
    return next((entry for entry in log if entry.kind in kinds), None)


def current_messages(records: Iterable[Record]) -> list[Record]:
    """Return the last message of every key of an UPSERT or DEBEZIUM source, without tombstones, sorted by key.

    Such a source is read from its topic, so the error of an unreadable message remains until its key is written again.
    """
    rows: dict[bytes, Record] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = record
    return [rows[key] for key in sorted(rows)]
