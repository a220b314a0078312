"""Kestrel's own steps: sources FROM KAFKA, and headers taken from columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kestrel_sql.dataflow.graph import Flow, GraphQuery, Numbered
from kestrel_sql.dataflow.ingestion import Message, message_reader
from kestrel_sql.dataflow.log_entries import DESERIALIZATION, FATAL, base64_of
from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.dataflow.rows import Made, Row, Rows
from kestrel_sql.dataflow.steps.tables import with_old
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1, StreamHeadersV1, TableHeadersV1
from kestrel_sql.topics.records import Headers, Record
from kestrel_sql.types.sql_types import Map

AnyKafkaSource = KafkaStreamSourceV1 | KafkaTableSourceV1


def kafka_stream_source_v1(step: KafkaStreamSourceV1, query: GraphQuery) -> Flow:
    """Read messages as a stream."""
    return _source(step, query)


def kafka_table_source_v1(step: KafkaTableSourceV1, query: GraphQuery) -> Flow:
    """Read messages as a table; messages without a key are dropped."""
    flow = replace(_source(step, query), is_table=True)
    return query.each(flow, lambda row: None if row.key is None else row, flow)


def _source(step: AnyKafkaSource, query: GraphQuery) -> Flow:
    flow = Flow(schema=query.schema(step), key_codec=KeyCodec.of(step.formats), topic=step.topic_name, node=0)
    return query.source(flow, _Messages(step, query, flow).read)


class _Messages:
    """Turns the messages of a topic into rows."""

    def __init__(self, step: AnyKafkaSource, query: GraphQuery, flow: Flow) -> None:
        written, columns = step.ingestion.formats, step.ingestion.message_schema
        key = SerdeSpec(written.key_format, columns.key, written.key_features, Side.KEY, step.topic_name)
        value = SerdeSpec(written.value_format, columns.value, written.value_features, Side.VALUE, step.topic_name)
        self._reader = message_reader(step.ingestion, query.serde(key), query.serde(value))
        self._width = len(flow.schema.key)
        self._logger = f"{query.logger(step)}.deserializer"
        self._kind = FATAL if query.flag("ksql.fail.on.deserialization.error", "false") else DESERIALIZATION
        self._logs_rows = query.logs_rows

    def read(self, made: Made, position: int, records: Numbered) -> Rows:
        """Decode messages."""
        found = []
        for number, record in records:
            message = self._reader.read(_as_mapping(record))
            row = self._row(message, (number, position), record)
            if message.error is not None:
                data = record.key if message.error.startswith("key: ") else record.value
                shown = base64_of(data) if self._logs_rows else None
                made.log(row, self._kind, self._logger, message.error, (), shown)
            if message.is_row:
                found.append(row)
        return found

    def _row(self, message: Message, ordinal: tuple[int, int], record: Record) -> Row:
        value = None
        if message.value is not None:
            copied = (None,) * self._width if message.key is None else message.key
            value = (*message.value, record.timestamp, record.partition, record.offset, *copied)
        return Row(
            0,
            message.key,
            value,
            record.timestamp,
            ordinal=ordinal,
            cause=record,
            headers=record.headers,
            task=record.partition,
        )


def _as_mapping(record: Record) -> Mapping[str, Any]:
    return {
        "topic": record.topic,
        "part": record.partition,
        "off": record.offset,
        "ts": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers],
    }


def stream_headers_v1(step: StreamHeadersV1, query: GraphQuery, source: Flow) -> Flow:
    """Take the headers of a row from one of its columns."""
    return _with_headers(step, query, source)


def table_headers_v1(step: TableHeadersV1, query: GraphQuery, source: Flow) -> Flow:
    """Take the headers of a change from a column of the new row, or of the old one if there is no new one."""
    return _with_headers(step, query, with_old(query, source, query.logger(step)))


def _with_headers(step: StreamHeadersV1 | TableHeadersV1, query: GraphQuery, source: Flow) -> Flow:
    at, column = next((i, c) for i, c in enumerate(source.schema.value) if c.name == step.headers_column)
    of = _of_map if isinstance(column.type, Map) else _of_array

    def changed(row: Row) -> Row:
        given = row.old if row.value is None else row.value
        return replace(row, headers=of(None if given is None else given[at]))

    return query.each(source, changed, source)


def _of_map(given: Mapping[str, Any] | None) -> Headers:
    """The headers of a map, sorted by key: a map has no order, and headers have."""
    return tuple((key, _as_bytes(value)) for key, value in sorted((given or {}).items()))


def _of_array(given: list[Mapping[str, Any] | None] | None) -> Headers:
    items = (item for item in given or () if item is not None and item["KEY"] is not None)
    return tuple((item["KEY"], _as_bytes(item["VALUE"])) for item in items)


def _as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
