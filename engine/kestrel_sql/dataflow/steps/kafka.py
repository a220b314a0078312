"""Kestrel's own steps: sources FROM KAFKA, and headers taken from columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from msgspec.structs import replace

from kestrel_sql.dataflow.graph import GraphQuery, SourceRead
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.dataflow.rows import Listed, Log, Rows
from kestrel_sql.dataflow.steps.tables import with_old
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1, StreamHeadersV1, TableHeadersV1
from kestrel_sql.topics.records import Headers
from kestrel_sql.types.sql_types import Map

AnyKafkaSource = KafkaStreamSourceV1 | KafkaTableSourceV1


def kafka_stream_source_v1(step: KafkaStreamSourceV1, query: GraphQuery) -> Relation:
    """Read messages as a stream."""
    return _source(step, query)


def kafka_table_source_v1(step: KafkaTableSourceV1, query: GraphQuery) -> Relation:
    """Read messages as a table; messages without a key are dropped."""
    relation = replace(_source(step, query), is_table=True)

    def apply(log: Log, rows: Rows) -> Rows:
        return rows.take(rows.key.indices())

    return query.then(relation, apply, relation, "drop rows without a key")


def _source(step: AnyKafkaSource, query: GraphQuery) -> Relation:
    written, columns, topic = step.ingestion.formats, step.ingestion.message_schema, step.topic_name
    return query.source(
        SourceRead(
            query=query.number,
            relation=Relation(schema=query.schema(step), key_codec=KeyCodec.of(step.formats), topic=topic),
            topic=topic,
            key=query.serde(SerdeSpec(written.key_format, columns.key, written.key_features, Side.KEY, topic)),
            value=query.serde(
                SerdeSpec(written.value_format, columns.value, written.value_features, Side.VALUE, topic)
            ),
            pseudo_version=step.pseudo_column_version,
            logger=query.logger(step),
            ingestion=step.ingestion,
            strict=query.flag("ksql.fail.on.deserialization.error", "false"),
            logs_rows=query.logs_rows,
        )
    )


def stream_headers_v1(step: StreamHeadersV1, query: GraphQuery, source: Relation) -> Relation:
    """Take the headers of a row from one of its columns."""
    return _with_headers(step, query, source)


def table_headers_v1(step: TableHeadersV1, query: GraphQuery, source: Relation) -> Relation:
    """Take the headers of a change from a column of the new row, or of the old one if there is no new one."""
    return _with_headers(step, query, with_old(query, source, query.logger(step)))


def _with_headers(step: StreamHeadersV1 | TableHeadersV1, query: GraphQuery, source: Relation) -> Relation:
    place, column = next((i, c) for i, c in enumerate(source.schema.value) if c.name == step.headers_column)
    of = _of_map if isinstance(column.type, Map) else _of_array

    def apply(log: Log, rows: Rows) -> Rows:
        given: Sequence[Any] = rows.value.cells[place].values()
        if rows.old is not None:
            old = rows.old.cells[place].values()
            given = [value if rows.value.has(at) else old[at] for at, value in enumerate(given)]
        return replace(rows, headers=Listed([of(each) for each in given]))

    return query.then(source, apply, source, f"take headers from {step.headers_column}")


def _of_map(given: Mapping[str, str | bytes | None] | None) -> Headers:
    """The headers of a map, sorted by key: a map has no order, and headers have."""
    return tuple((key, _as_bytes(value)) for key, value in sorted((given or {}).items()))


class _Header(TypedDict):
    KEY: str | None
    VALUE: str | bytes | None


def _of_array(given: list[_Header | None] | None) -> Headers:
    return tuple(
        (item["KEY"], _as_bytes(item["VALUE"])) for item in given or () if item is not None and item["KEY"] is not None
    )


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
