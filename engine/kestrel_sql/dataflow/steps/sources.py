"""The steps that read a topic."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kestrel_sql.dataflow.evaluation import StepLog
from kestrel_sql.dataflow.graph import GraphQuery, SourceRead
from kestrel_sql.dataflow.log_entries import FATAL, PROCESSING
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.dataflow.rows import Listed, Log, Rows
from kestrel_sql.dataflow.timestamps import Timestamps
from kestrel_sql.plan.step import Step, TimestampColumn, WindowInfo
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)

AnySource = StreamSourceV1 | WindowedStreamSourceV1 | TableSourceV1 | TableSourceV2 | WindowedTableSourceV1


def stream_source_v1(step: StreamSourceV1, query: GraphQuery) -> Relation:
    """Read a topic as a stream; records with a NULL key or value are rows, too."""
    return _source(step, query, None)


def windowed_stream_source_v1(step: WindowedStreamSourceV1, query: GraphQuery) -> Relation:
    """Read a topic with windowed keys as a stream."""
    return _source(step, query, step.window_info)


def table_source_v1(step: TableSourceV1, query: GraphQuery) -> Relation:
    """Read a topic as a table; records without a key are dropped."""
    return _table(step, query, None)


def table_source_v2(step: TableSourceV2, query: GraphQuery) -> Relation:
    """Read a topic as a table; records without a key are dropped."""
    return _table(step, query, None)


def windowed_table_source_v1(step: WindowedTableSourceV1, query: GraphQuery) -> Relation:
    """Read a topic with windowed keys as a table."""
    return _table(step, query, step.window_info)


def _table(step: AnySource, query: GraphQuery, window: WindowInfo | None) -> Relation:
    relation = replace(_source(step, query, window), is_table=True)

    def with_keys(_: Log, rows: Rows) -> Rows:
        return rows if rows.key.present is None else rows.where(rows.key.present)

    return query.then(relation, with_keys, relation, "drop rows without a key")


def clocks(step: Step, query: GraphQuery) -> Iterator[Relation]:
    """Read the topics of a plan a second time, only for the timestamps of their records.

    Errors are logged the first time.
    """
    if isinstance(step, AnySource):
        window = step.window_info if isinstance(step, WindowedStreamSourceV1 | WindowedTableSourceV1) else None
        yield _source(step, query, window, silent=True)
    for upstream in step.upstream:
        yield from clocks(upstream, query)


def _source(step: AnySource, query: GraphQuery, window: WindowInfo | None, *, silent: bool = False) -> Relation:
    facts = Relation(
        schema=query.schema(step), window=window, key_codec=KeyCodec.of(step.formats), topic=step.topic_name
    )
    key, value = query.specs(step.formats, facts, step.source_schema.value)
    relation = query.source(
        SourceRead(
            query=query.number,
            relation=facts,
            topic=step.topic_name,
            key=key,
            value=value,
            headers=step.source_schema.headers,
            pseudo_version=step.pseudo_column_version,
            window=window,
            logger=query.logger(step),
            strict=query.flag("ksql.fail.on.deserialization.error", "false"),
            silent=silent,
            logs_rows=query.logs_rows,
        )
    )
    if step.timestamp_column is None:
        return relation
    return _timestamped(step, query, relation, step.timestamp_column, silent=silent)


def _timestamped(
    step: AnySource, query: GraphQuery, relation: Relation, column: TimestampColumn, *, silent: bool
) -> Relation:
    """Take the timestamp from a column; a record without a usable one is dropped (rules O1)."""
    timestamps = Timestamps(query, relation, column)
    kind = FATAL if query.flag("ksql.timestamp.throw.on.invalid", "false") else PROCESSING
    step_log = StepLog.of(query, step)
    message = f"Failed to extract timestamp from row: column {column.column}"
    rowtime = next(at for at, each in enumerate(relation.schema.value) if each.name == "ROWTIME")

    def apply(log: Log, rows: Rows) -> Rows:
        times = timestamps(rows)
        for at, time in enumerate(times):
            if time is None and not silent:
                step_log.failed(log, rows, at, message, kind=kind)
        kept = [at for at, time in enumerate(times) if time is not None and time >= 0]
        taken, cells = rows.take(kept), Listed([times[at] for at in kept])
        return replace(taken, times=cells, value=taken.value.with_cells(rowtime, cells))

    return query.then(relation, apply, relation, f"take the timestamp from {column.column}")
