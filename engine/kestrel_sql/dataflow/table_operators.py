"""The operators that keep the rows of a table: for steps that need old rows, for sinks, and for pull queries."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.key_bytes import key_bytes
from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.operators.operator import Operator
from kestrel_sql.operators.tables.materialise import Materialise
from kestrel_sql.operators.tables.stream_time import StreamTime
from kestrel_sql.operators.tables.table_store import TableStore


def with_old_rows(query: Query, source: Relation) -> tuple[Operator, Relation]:
    """Add to each change of a table the row that it replaces."""
    rowtime = next((at for at, column in enumerate(source.schema.value) if column.name == "ROWTIME"), None)
    return Materialise(key_bytes=key_bytes(query, source), rowtime=rowtime), replace(source, has_old=True)


def at_stream_time(query: Query, source: Relation) -> tuple[Operator, Relation]:
    """Give tombstones the stream time of the task that read them (rules O17)."""
    result = replace(source, has_old=False, has_old_key=False, extra=())
    return StreamTime(key_bytes=key_bytes(query, source)), result


def stored(query: Query, source: Relation) -> tuple[Operator, Relation]:
    """Keep the rows of a table for pull queries."""
    operator = TableStore(key_bytes=key_bytes(query, source), width=len(source.schema.value))
    return operator, replace(source, has_old=False, has_old_key=False)
