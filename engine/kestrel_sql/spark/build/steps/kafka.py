"""Builders of Kestrel's own steps: sources FROM KAFKA, and headers taken from columns."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1, StreamHeadersV1, TableHeadersV1
from kestrel_sql.spark.build.projections import with_old
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.group import QueryBuild, SourceRead
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation, no_headers
from kestrel_sql.types.sql_types import Map


def kafka_stream_source_v1(step: KafkaStreamSourceV1, build: QueryBuild) -> Handle:
    """Read messages as a stream."""
    return _source(step, build)


def kafka_table_source_v1(step: KafkaTableSourceV1, build: QueryBuild) -> Handle:
    """Read messages as a table; messages without a key are dropped."""
    handle = replace(_source(step, build), is_table=True)
    present = s.is_not_null(handle.part("k"))
    return build.apply(handle, Operation(fields=handle.unchanged(), keep=present, logger=build.logger(step)), handle)


def _source(step: KafkaStreamSourceV1 | KafkaTableSourceV1, build: QueryBuild) -> Handle:
    inherited, written = step.formats, step.ingestion.formats
    handle = Handle(
        relation=build.group.new_relation(),
        level=0,
        schema=build.schema(step),
        key_codec=KeyCodec.of(inherited),
        topic=step.topic_name,
    )
    build.group.stage(0).relation(handle.relation)
    columns = step.ingestion.message_schema
    build.group.sources.append(
        SourceRead(
            query=build.query,
            relation=handle.relation,
            topic=step.topic_name,
            key=build.serde(
                SerdeSpec(written.key_format, columns.key, written.key_features, Side.KEY, step.topic_name)
            ),
            value=build.serde(
                SerdeSpec(written.value_format, columns.value, written.value_features, Side.VALUE, step.topic_name)
            ),
            headers=(),
            pseudo_version=step.pseudo_column_version,
            window=None,
            logger=build.logger(step),
            handle=handle,
            ingestion=step.ingestion,
            strict=build.flag("ksql.fail.on.deserialization.error", "false"),
            logs_rows=build.logs_rows,
        )
    )
    return handle


def stream_headers_v1(step: StreamHeadersV1, build: QueryBuild, source: Handle) -> Handle:
    """Take the headers of a row from one of its columns."""
    return _with_headers(build, source, source.part("v", step.headers_column), step)


def table_headers_v1(step: TableHeadersV1, build: QueryBuild, source: Handle) -> Handle:
    """Take the headers of a change from a column of the new row, or of the old one if there is no new one."""
    known = with_old(build, source, build.logger(step))
    column = step.headers_column
    given = s.if_(s.is_null(known.part("v")), known.part("o", column), known.part("v", column))
    return _with_headers(build, known, given, step)


def _with_headers(build: QueryBuild, handle: Handle, given: Tree, step: StreamHeadersV1 | TableHeadersV1) -> Handle:
    is_map = isinstance(next(c.type for c in handle.schema.value if c.name == step.headers_column), Map)
    # A map has no order. Sorting by key makes the order of headers deterministic.
    items = (
        s.call("array_sort", s.call("map_entries", given))
        if is_map
        else s.call("filter", given, s.lambda_([_ITEM], _has_key()))
    )
    key, value = ("key", "value") if is_map else ("KEY", "VALUE")
    header = s.named_struct([("key", _field(key)), ("value", s.cast_text(_field(value), "BINARY"))])
    headers = s.call("transform", items, s.lambda_([_ITEM], header))
    operation = Operation(
        fields=handle.unchanged(), headers=s.call("coalesce", headers, no_headers()), logger=build.logger(step)
    )
    return build.apply(handle, operation, handle)


_ITEM = "header__"


def _field(name: str) -> Tree:
    return exp.Dot(this=exp.to_identifier(_ITEM, quoted=True), expression=exp.to_identifier(name, quoted=True))


def _has_key() -> Tree:
    return s.is_not_null(_field("KEY"))
