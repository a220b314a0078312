"""Builders of the steps that read a topic as CREATE SOURCE … FROM KAFKA says."""

from __future__ import annotations

from dataclasses import replace

from engine.formats.base import SerdeSpec, Side
from engine.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1
from engine.spark import sqltree as s
from engine.spark.build.streams import schema_after
from engine.spark.group import QueryBuild, SourceRead
from engine.spark.handles import Handle, KeyCodec
from engine.spark.stage import Operation


def kafka_stream_source_v1(step: KafkaStreamSourceV1, build: QueryBuild) -> Handle:
    """Read messages as a stream."""
    return _source(step, build)


def kafka_table_source_v1(step: KafkaTableSourceV1, build: QueryBuild) -> Handle:
    """Read messages as a table; what has no key was left out when it was read."""
    handle = replace(_source(step, build), is_table=True)
    present = s.is_not_null(handle.part("k"))
    return build.apply(handle, Operation(fields=handle.unchanged(), keep=present, logger=build.logger(step)), handle)


def _source(step: KafkaStreamSourceV1 | KafkaTableSourceV1, build: QueryBuild) -> Handle:
    inherited, written = step.formats, step.intake.formats
    handle = Handle(
        relation=build.group.new_relation(),
        level=0,
        schema=schema_after(build, step),
        key_codec=KeyCodec(format=inherited.key_format, features=inherited.key_features),
        topic=step.topic_name,
    )
    build.group.stage(0).relation(handle.relation)
    columns = step.intake.message_schema
    build.group.sources.append(
        SourceRead(
            query=build.query,
            relation=handle.relation,
            topic=step.topic_name,
            key=build.serde(SerdeSpec(written.key_format, columns.key, written.key_features, Side.KEY, step.topic_name)),
            value=build.serde(SerdeSpec(written.value_format, columns.value, written.value_features, Side.VALUE, step.topic_name)),
            headers=(),
            pseudo_version=step.pseudo_column_version,
            window=None,
            logger=build.logger(step),
            handle=handle,
            intake=step.intake,
            strict=build.flag("ksql.fail.on.deserialization.error", "false"),
        )
    )
    return handle
