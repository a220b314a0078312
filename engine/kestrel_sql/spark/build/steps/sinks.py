"""Builders of the steps that write a topic.

`kestrel_sql.spark.io.topics` encodes the records of all sinks of a group at once.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from kestrel_sql.dataflow.tables import at_stream_time
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.spark.build.steps.sources import clocks
from kestrel_sql.spark.build.timestamps import extracted
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Fault
from kestrel_sql.spark.stages.group import QueryBuild, SinkWrite
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation
from kestrel_sql.types.own_scales import has_own_scales
from kestrel_sql.types.sql_types import BYTES, STRING


def stream_sink_v1(step: StreamSinkV1, build: QueryBuild, source: Handle) -> Handle:
    """Write a stream; a NULL row is written with a NULL value."""
    return _sink(step, build, source)


def table_sink_v1(step: TableSinkV1, build: QueryBuild, source: Handle) -> Handle:
    """Write a table; a NULL row is a tombstone."""
    return _sink(step, build, source)


def _sink(step: StreamSinkV1 | TableSinkV1, build: QueryBuild, source: Handle) -> Handle:
    handle = replace(source, topic=step.topic_name)
    if step.timestamp_column is not None:
        if handle.is_table:
            handle = _at_stream_time(step, build, handle)
        handle = _timestamped(step, build, handle, step.timestamp_column)
    if handle.nulls_empty_keys:
        handle = _with_nulls(build, handle)
    key, value = build.specs(step.formats, handle, handle.schema.value)
    build.group.sinks.append(
        SinkWrite(
            query=build.query,
            handle=handle,
            topic=step.topic_name,
            key=key,
            value=value,
            window=handle.window,
            logger=build.logger(step),
            guarded=step.timestamp_column is not None or any(has_own_scales(c.type) for c in handle.schema.columns),
            logs_rows=build.logs_rows,
        )
    )
    return handle if handle.relation == source.relation else source


def _with_nulls(build: QueryBuild, handle: Handle) -> Handle:
    """Make empty strings and bytes of keys NULL."""
    empty = {STRING: s.text(""), BYTES: s.call("unhex", s.text(""))}
    trees = [
        (each.name, s.call("nullif", tree, empty[each.type]) if each.type in empty else tree)
        for each, tree in zip(handle.schema.key, handle.keys().values(), strict=True)
    ]
    key = s.if_(s.is_null(handle.part("k")), s.NULL, s.named_struct(trees))
    fields = tuple((name, key if name == "k" else tree) for name, tree in handle.unchanged())
    return build.apply(handle, Operation(fields=fields), handle)


def _at_stream_time(step: StreamSinkV1 | TableSinkV1, build: QueryBuild, handle: Handle) -> Handle:
    """Give tombstones the stream time of the task that read them."""
    inputs = (handle, *clocks(step.source, build))
    return build.stateful(at_stream_time(build, handle), inputs, build.logger(step))


def _timestamped(
    step: StreamSinkV1 | TableSinkV1, build: QueryBuild, handle: Handle, column: TimestampColumn
) -> Handle:
    """Take timestamps from a column.

    Rows without a usable one are dropped, and NULL rows keep their timestamp (rules O17).
    """
    timestamp, unusable = extracted(build, handle, column)
    present = s.is_not_null(handle.part("v"))
    usable = s.all_of(s.not_(unusable), s.coalesce_false(s.binary(exp.GTE, timestamp, s.integer(0))))
    operation = Operation(
        fields=handle.unchanged(),
        keep=s.any_of([s.is_null(handle.part("v")), usable]),
        timestamp=s.if_(present, timestamp, s.column("ts")),
        faults=(
            Fault(
                s.all_of(present, s.not_(usable)), f"Error writing row with extracted timestamp: column {column.column}"
            ),
        ),
        logger=build.logger(step),
    )
    return build.apply(handle, operation, handle)
