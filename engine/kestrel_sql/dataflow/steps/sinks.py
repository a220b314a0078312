"""The steps that write a topic."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.dataflow import internal_topics
from kestrel_sql.dataflow.evaluation import StepLog
from kestrel_sql.dataflow.graph import GraphQuery, SinkWrite
from kestrel_sql.dataflow.key_bytes import key_bytes
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Listed, Log, Rows
from kestrel_sql.dataflow.steps.sources import clocks
from kestrel_sql.dataflow.timestamps import Timestamps
from kestrel_sql.operators.tables.stream_time import StreamTime
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.types.own_scales import has_own_scales

AnySink = StreamSinkV1 | TableSinkV1


def stream_sink_v1(step: StreamSinkV1, query: GraphQuery, source: Relation) -> Relation:
    """Write a stream; a NULL row is written with a NULL value."""
    return _sink(step, query, source)


def table_sink_v1(step: TableSinkV1, query: GraphQuery, source: Relation) -> Relation:
    """Write a table; a NULL row is a tombstone."""
    return _sink(step, query, source)


def _sink(step: AnySink, query: GraphQuery, source: Relation) -> Relation:
    written = replace(source, topic=step.topic_name)
    if step.timestamp_column is not None:
        if written.is_table:
            inputs = (written, *clocks(step.source, query))
            # Tombstones get the stream time of the task that read them (rules O17).
            facts = replace(written, has_old=False, has_old_key=False, extra=())
            operator = StreamTime(key_bytes=key_bytes(query, written))
            written = query.stateful((operator, facts), inputs, query.logger(step))
        written = _timestamped(step, query, written, step.timestamp_column)
    written = internal_topics.with_named_keys(step.formats, query, written)
    key, value = query.specs(step.formats, written, written.schema.value)
    query.sink(
        SinkWrite(
            query=query.number,
            relation=written,
            topic=step.topic_name,
            key=key,
            value=value,
            window=written.window,
            logger=query.logger(step),
            guarded=step.timestamp_column is not None or any(has_own_scales(c.type) for c in written.schema.columns),
            logs_rows=query.logs_rows,
        )
    )
    return written if written.number == source.number else source


def _timestamped(step: AnySink, query: GraphQuery, source: Relation, column: TimestampColumn) -> Relation:
    """Take timestamps from a column.

    Rows without a usable one are dropped, and NULL rows keep their timestamp (rules O17).
    """
    timestamps, step_log = Timestamps(query, source, column), StepLog.of(query, step)
    message = f"Error writing row with extracted timestamp: column {column.column}"

    def apply(log: Log, rows: Rows) -> Rows:
        times, before = timestamps(rows), rows.times.values()
        kept, found = [], []
        for at, time in enumerate(times):
            if not rows.value.has(at):
                kept.append(at)
                found.append(before[at])
            elif time is None or time < 0:
                step_log.failed(log, rows, at, message)
            else:
                kept.append(at)
                found.append(time)
        return replace(rows.take(kept), times=Listed(found))

    return query.then(source, apply, source, f"take the timestamp from {column.column}")
