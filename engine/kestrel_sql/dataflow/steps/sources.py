"""The steps that read a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kestrel_sql.dataflow.evaluation import StepLog
from kestrel_sql.dataflow.graph import Flow, GraphQuery, Numbered
from kestrel_sql.dataflow.log_entries import DESERIALIZATION, FATAL, PROCESSING, base64_of
from kestrel_sql.dataflow.projections import log_of
from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.dataflow.rows import Made, Row, Rows
from kestrel_sql.dataflow.timestamps import Timestamps
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import causes
from kestrel_sql.formats.table import decoder
from kestrel_sql.formats.windowed_key import split
from kestrel_sql.plan.step import Step, TimestampColumn, WindowInfo
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)
from kestrel_sql.topics.records import Headers, Record

AnySource = StreamSourceV1 | WindowedStreamSourceV1 | TableSourceV1 | TableSourceV2 | WindowedTableSourceV1


def stream_source_v1(step: StreamSourceV1, query: GraphQuery) -> Flow:
    """Read a topic as a stream; records with a NULL key or value are rows, too."""
    return _source(step, query, None)


def windowed_stream_source_v1(step: WindowedStreamSourceV1, query: GraphQuery) -> Flow:
    """Read a topic with windowed keys as a stream."""
    return _source(step, query, step.window_info)


def table_source_v1(step: TableSourceV1, query: GraphQuery) -> Flow:
    """Read a topic as a table; records without a key are dropped."""
    return _table(step, query, None)


def table_source_v2(step: TableSourceV2, query: GraphQuery) -> Flow:
    """Read a topic as a table; records without a key are dropped."""
    return _table(step, query, None)


def windowed_table_source_v1(step: WindowedTableSourceV1, query: GraphQuery) -> Flow:
    """Read a topic with windowed keys as a table."""
    return _table(step, query, step.window_info)


def _table(step: AnySource, query: GraphQuery, window: WindowInfo | None) -> Flow:
    flow = replace(_source(step, query, window), is_table=True)
    return query.each(flow, lambda row: row if has_key(row) else None, flow)


def has_key(row: Row) -> bool:
    """Whether a row has a key; one whose only column is NULL is none."""
    return row.key is not None and (len(row.key) != 1 or row.key[0] is not None)


def clocks(step: Step, query: GraphQuery) -> Iterator[Flow]:
    """Read the topics of a plan a second time, only for the timestamps of their records.

    Errors are logged the first time.
    """
    if isinstance(step, AnySource):
        window = step.window_info if isinstance(step, WindowedStreamSourceV1 | WindowedTableSourceV1) else None
        yield _source(step, query, window, silent=True)
    for upstream in step.upstream:
        yield from clocks(upstream, query)


def _source(step: AnySource, query: GraphQuery, window: WindowInfo | None, *, silent: bool = False) -> Flow:
    flow = Flow(
        schema=query.schema(step),
        window=window,
        key_codec=KeyCodec.of(step.formats),
        topic=step.topic_name,
        node=0,
    )
    decode = _Decoder(step, query, flow, silent=silent)
    flow = query.source(flow, decode.read)
    if step.timestamp_column is None:
        return flow
    return _timestamped(step, query, flow, step.timestamp_column, silent=silent)


class _Decoder:
    """Turns the records of a topic into rows."""

    def __init__(self, step: AnySource, query: GraphQuery, flow: Flow, *, silent: bool) -> None:
        key, value = query.specs(step.formats, flow, step.source_schema.value)
        self._key, self._value = decoder(key), decoder(value)
        self._headers, self._pseudo_version = step.source_schema.headers, step.pseudo_column_version
        self._width, self._window = len(flow.schema.key), flow.window
        self._logger = f"{query.logger(step)}.deserializer"
        self._kind = FATAL if query.flag("ksql.fail.on.deserialization.error", "false") else DESERIALIZATION
        self._logs_rows, self._silent = query.logs_rows, silent

    def read(self, made: Made, position: int, records: Numbered) -> Rows:
        """Decode records; those that cannot be read are logged and give no row."""
        found = []
        for number, record in records:
            row = self._row(made, (number, position), record)
            if row is not None:
                found.append(row)
        return found

    def _row(self, made: Made, ordinal: tuple[int, int], record: Record) -> Row | None:
        part, bounds = "key", None
        try:
            data = record.key
            if self._window is not None and data is not None:
                data, bounds = split(data, self._window)
            key = self._key(data)
            part = "value"
            value = self._value(record.value)
        except SerdeError as error:
            if not self._silent:
                about = Row(0, None, None, record.timestamp, ordinal=ordinal, cause=record)
                data = record.key if part == "key" else record.value
                shown = base64_of(data) if self._logs_rows else None
                made.log(about, self._kind, self._logger, f"{part}: {error}", causes(error), shown)
            return None
        return Row(
            0,
            key,
            None if value is None else self._whole(value, key, bounds, record),
            record.timestamp,
            window=bounds,
            ordinal=ordinal,
            cause=record,
            headers=record.headers,
            task=record.partition,
        )

    def _whole(
        self, value: tuple[Any, ...], key: tuple[Any, ...] | None, bounds: tuple[int, int] | None, record: Record
    ) -> tuple[Any, ...]:
        """The value with the columns that a source adds (rules P6.1)."""
        headers = (header(record.headers, column.header_key) for column in self._headers)
        metadata = (record.timestamp, record.partition, record.offset)[: 1 if self._pseudo_version == 0 else 3]
        copied = (None,) * self._width if key is None else key
        window = () if self._window is None else bounds or (None, None)
        return (*value, *headers, *metadata, *copied, *window)


def header(headers: Headers, name: str | None) -> Any:
    """Return the last header of a name, or all headers if there is none."""
    if name is None:
        return [{"KEY": key, "VALUE": value} for key, value in headers]
    return next((value for key, value in reversed(headers) if key == name), None)


def _timestamped(step: AnySource, query: GraphQuery, flow: Flow, column: TimestampColumn, *, silent: bool) -> Flow:
    """Take the timestamp from a column; a record without a usable one is dropped (rules O1)."""
    timestamps = Timestamps(query, flow, column)
    kind = FATAL if query.flag("ksql.timestamp.throw.on.invalid", "false") else PROCESSING
    log: StepLog = log_of(query, step)
    message = f"Failed to extract timestamp from row: column {column.column}"
    rowtime = next(at for at, each in enumerate(flow.schema.value) if each.name == "ROWTIME")

    def apply(made: Made, rows: Rows) -> Rows:
        found = []
        for row, time in zip(rows, timestamps(rows), strict=True):
            if time is None:
                if not silent:
                    log.failed(made, row, message, kind=kind)
            elif time >= 0 and row.value is not None:
                value = (*row.value[:rowtime], time, *row.value[rowtime + 1 :])
                found.append(replace(row, value=value, timestamp=time))
        return found

    return query.then(flow, apply, flow)
