"""Builders of the steps that read a topic.

`kestrel_sql.spark.io.topics` decodes the records of all sources of a group at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.plan.step import Step, TimestampColumn, WindowInfo
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)
from kestrel_sql.spark.build.timestamps import extracted
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Fault
from kestrel_sql.spark.stages.group import QueryBuild, SourceRead
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation

AnySource = StreamSourceV1 | WindowedStreamSourceV1 | TableSourceV1 | TableSourceV2 | WindowedTableSourceV1


def stream_source_v1(step: StreamSourceV1, build: QueryBuild) -> Handle:
    """Read a topic as a stream; records with a NULL key or value are rows, too."""
    return _source(step, build, None)


def windowed_stream_source_v1(step: WindowedStreamSourceV1, build: QueryBuild) -> Handle:
    """Read a topic with windowed keys as a stream."""
    return _source(step, build, step.window_info)


def table_source_v1(step: TableSourceV1, build: QueryBuild) -> Handle:
    """Read a topic as a table; records without a key are dropped."""
    return _table(step, build, None)


def table_source_v2(step: TableSourceV2, build: QueryBuild) -> Handle:
    """Read a topic as a table; records without a key are dropped."""
    return _table(step, build, None)


def windowed_table_source_v1(step: WindowedTableSourceV1, build: QueryBuild) -> Handle:
    """Read a topic with windowed keys as a table."""
    return _table(step, build, step.window_info)


def _table(step: AnySource, build: QueryBuild, window: WindowInfo | None) -> Handle:
    handle = replace(_source(step, build, window), is_table=True)
    present = s.is_not_null(handle.part("k"))
    if len(handle.schema.key) == 1:
        present = s.all_of(present, s.is_not_null(handle.part("k", handle.schema.key[0].name)))
    return build.apply(handle, Operation(fields=handle.unchanged(), keep=present, logger=build.logger(step)), handle)


def clocks(step: Step, build: QueryBuild) -> Iterator[Handle]:
    """Read the topics of a plan a second time, only for the timestamps of their records.

    Errors are logged the first time.
    """
    if isinstance(step, AnySource):
        window = step.window_info if isinstance(step, WindowedStreamSourceV1 | WindowedTableSourceV1) else None
        yield _source(step, build, window, silent=True)
    for upstream in step.upstream:
        yield from clocks(upstream, build)


def _source(step: AnySource, build: QueryBuild, window: WindowInfo | None, *, silent: bool = False) -> Handle:
    schema, formats = step.source_schema, step.formats
    handle = Handle(
        relation=build.group.new_relation(),
        level=0,
        schema=build.schema(step),
        window=window,
        key_codec=KeyCodec.of(formats),
        topic=step.topic_name,
    )
    build.group.stage(0).relation(handle.relation)
    key, value = build.specs(formats, handle, schema.value)
    build.group.sources.append(
        SourceRead(
            query=build.query,
            relation=handle.relation,
            topic=step.topic_name,
            key=key,
            value=value,
            headers=schema.headers,
            pseudo_version=step.pseudo_column_version,
            window=window,
            logger=build.logger(step),
            handle=handle,
            strict=build.flag("ksql.fail.on.deserialization.error", "false"),
            silent=silent,
            logs_rows=build.logs_rows,
        )
    )
    return (
        handle
        if step.timestamp_column is None
        else _timestamped(step, build, handle, step.timestamp_column, silent=silent)
    )


def _timestamped(
    step: AnySource, build: QueryBuild, handle: Handle, column: TimestampColumn, *, silent: bool
) -> Handle:
    """Take the timestamp from a column; a record without a usable one is dropped (rules O1)."""
    timestamp, unusable = extracted(build, handle, column)
    present = s.is_not_null(handle.part("v"))
    values = [(c.name, timestamp if c.name == "ROWTIME" else handle.part("v", c.name)) for c in handle.schema.value]
    fields = [(field, tree) for field, tree in handle.unchanged() if field != "v"]
    fatal = build.flag("ksql.timestamp.throw.on.invalid", "false")
    message = f"Failed to extract timestamp from row: column {column.column}"
    operation = Operation(
        fields=(*fields, ("v", s.if_(present, s.named_struct(values), s.NULL))),
        keep=s.all_of(present, s.not_(unusable), s.coalesce_false(s.binary(exp.GTE, timestamp, s.integer(0)))),
        timestamp=timestamp,
        faults=() if silent else (Fault(s.any_of([s.is_null(handle.part("v")), unusable]) or s.FALSE, message),),
        logger=build.logger(step),
        fatal=fatal and not silent,
    )
    return build.apply(handle, operation, handle)
