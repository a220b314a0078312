"""Plans push and pull queries, and decodes the rows of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

import msgspec

from kestrel_sql.admin.answer import Answer
from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.errors import StatementError
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.formats.table import decoder
from kestrel_sql.formats.windowed_key import split
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.step import FormatInfo, Formats, Step, WindowInfo
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.plan.steps.streams import StreamSelectV1
from kestrel_sql.plan.steps.tables import TableSelectV1
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.query import plan_transient
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression
from kestrel_sql.sql.nodes.statements import Emit, Query, SelectAll
from kestrel_sql.sql.nodes.walk import column_refs
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import ROWOFFSET, ROWPARTITION, WINDOWEND, WINDOWSTART, Column, Schema

TOPIC = "transient"
"""The topic of a push or pull query, which exists only inside the process."""


class QueryKind(Enum):
    """How a query is answered."""

    PUSH = "push"
    PULL_TABLE = "pull from a table"
    PULL_STREAM = "pull from a stream"


class Row(msgspec.Struct, frozen=True):
    """A row of an answer, in column order; a tombstone has values only in columns of the key."""

    values: tuple[object, ...]
    tombstone: bool = False


class TransientQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A planned push or pull query.

    Attributes:
        kind: how it is answered.
        plan: the plan.
        columns: the columns of the answer.
        key: the key columns of the result.
        from_key: for each column of the answer the key column that it copies, or None.
        is_table: whether the result is a table, which has tombstones.
        limit: the LIMIT.
        source: the only source of a pull query.
        where: the condition of a pull query, with unqualified columns.
    """

    kind: QueryKind
    plan: QueryPlan
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    from_key: tuple[str | None, ...]
    is_table: bool
    limit: int | None
    source: str = ""
    where: Expression | None = None
    scalable: bool = False

    def admits(self, record: Record) -> bool:
        """Whether the query reads a record: a scalable push query drops a NULL key or value (rules L5)."""
        return not self.scalable or (record.value is not None and (not self.key or record.key is not None))

    def rows(self, records: Sequence[Record], window: WindowInfo | None) -> list[Row]:
        """Decode the rows from the records that the query wrote, up to its LIMIT; `window` is that of its key."""
        found: list[Row] = []
        for row in self._rows(records, window):
            if self.limit is not None and len(found) >= self.limit:
                break
            found.append(row)
        return found

    def is_full(self, rows: Sequence[Row]) -> bool:
        """Return whether the rows reach the LIMIT."""
        return self.limit is not None and len(rows) >= self.limit

    def _rows(self, records: Sequence[Record], window: WindowInfo | None) -> Iterator[Row]:
        formats = _formats(self.key)
        key_of = decoder(SerdeSpec(formats.key_format, self.key, formats.key_features, Side.KEY, TOPIC))
        value_of = decoder(SerdeSpec(formats.value_format, self.columns, formats.value_features, Side.VALUE, TOPIC))
        for record in records:
            value = value_of(record.value)
            if value is not None:
                yield Row(value)
            elif self.is_table:
                yield Row(self._tombstone(record.key, key_of, window), tombstone=True)

    def _tombstone(
        self, data: bytes | None, key_of: Callable[[bytes | None], tuple[object, ...] | None], window: WindowInfo | None
    ) -> tuple[object, ...]:
        known: dict[str, object] = {}
        if window is not None and data is not None:
            data, (known[WINDOWSTART.name], known[WINDOWEND.name]) = split(data, window)
        key = key_of(data) or (None,) * len(self.key)
        known.update(zip((column.name for column in self.key), key, strict=True))
        return tuple(None if name is None else known.get(name) for name in self.from_key)


def plan_query(
    query: Query,
    catalog: Catalog,
    config: Config,
    query_id: str,
    functions: Registry,
    *,
    kind: QueryKind = QueryKind.PUSH,
    source: str = "",
) -> TransientQuery:
    """Plan a push or pull query.

    Raises:
        StatementError: the query breaks one of the rules L9.
    """
    planned = plan_transient(query, catalog, config, query_id, functions)
    root = planned.physical_plan
    if not isinstance(root, StreamSelectV1 | TableSelectV1):
        raise StatementError("a query must end in a projection", span=query.span)
    schema = root.result_schema(Types(functions, config).of)
    names = dict(zip(_source_keys(root, functions, config), root.key_column_names or (), strict=False))
    return TransientQuery(
        kind=kind,
        plan=QueryPlan(sources=planned.sources, sink=None, physical_plan=_sink(root, schema), query_id=query_id),
        columns=schema.value,
        key=schema.key,
        from_key=tuple(_from_key(item.expression, names) for item in root.select_expressions),
        is_table=isinstance(root, TableSelectV1),
        limit=query.limit,
        source=source,
    )


def is_scalable(query: Query, config: Config, plans: Iterable[QueryPlan]) -> bool:
    """Whether ksqlDB runs a push query as a scalable one, over the records that the only query writes into its source.

    `plans` are those of the persistent queries.
    """
    expressions = [item.expression for item in query.select if not isinstance(item, SelectAll)]
    if query.where is not None:
        expressions.append(query.where)
    names = {ref.name for expression in expressions for ref in column_refs(expression)}
    clauses = (query.window, query.group_by, query.having, query.partition_by)
    return (
        query.emit is Emit.CHANGES
        and config.get("auto.offset.reset") == "latest"
        and config.flag("ksql.query.push.v2.enabled")
        and not query.joins
        and all(clause is None for clause in clauses)
        and not names & {ROWPARTITION.name, ROWOFFSET.name}
        and sum(plan.sink == query.source.name for plan in plans) == 1
    )


def answer_with(planned: TransientQuery, rows: Sequence[Row]) -> Answer:
    """Return the answer of a query with these rows."""
    return Answer(
        columns=planned.columns,
        rows=tuple(row.values for row in rows),
        tombstones=frozenset(at for at, row in enumerate(rows) if row.tombstone),
        limited=planned.is_full(rows),
    )


def _source_keys(root: StreamSelectV1 | TableSelectV1, functions: Registry, config: Config) -> tuple[str, ...]:
    return tuple(column.name for column in root.source.result_schema(Types(functions, config).of).key)


def _from_key(expression: object, keys: dict[str, str]) -> str | None:
    if not isinstance(expression, ColumnRef):
        return None
    return expression.name if expression.name in (WINDOWSTART.name, WINDOWEND.name) else keys.get(expression.name)


def _sink(root: Step, schema: Schema) -> Step:
    formats = _formats(schema.key)
    sink = TableSinkV1 if isinstance(root, TableSelectV1) else StreamSinkV1
    return sink(query_context="Transient", source=root, formats=formats, topic_name=TOPIC)


def _formats(key: tuple[Column, ...]) -> Formats:
    return Formats(key_format=FormatInfo("JSON" if key else "NONE"), value_format=FormatInfo("JSON"))
