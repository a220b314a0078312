"""The steps that write a topic."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.graph import Flow, GraphQuery
from kestrel_sql.dataflow.log_entries import FATAL, PROCESSING, json_row
from kestrel_sql.dataflow.projections import log_of
from kestrel_sql.dataflow.rows import Made, Row, Rows
from kestrel_sql.dataflow.steps.sources import clocks
from kestrel_sql.dataflow.tables import at_stream_time
from kestrel_sql.dataflow.timestamps import Timestamps
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import causes, describe
from kestrel_sql.formats.table import encoder
from kestrel_sql.formats.windowed_key import join
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.topics.records import Record
from kestrel_sql.types.own_scales import has_own_scales

AnySink = StreamSinkV1 | TableSinkV1


def stream_sink_v1(step: StreamSinkV1, query: GraphQuery, source: Flow) -> Flow:
    """Write a stream; a NULL row is written with a NULL value."""
    return _sink(step, query, source)


def table_sink_v1(step: TableSinkV1, query: GraphQuery, source: Flow) -> Flow:
    """Write a table; a NULL row is a tombstone."""
    return _sink(step, query, source)


def _sink(step: AnySink, query: GraphQuery, source: Flow) -> Flow:
    flow = replace(source, topic=step.topic_name)
    if step.timestamp_column is not None:
        if flow.is_table:
            inputs = (flow, *clocks(step.source, query))
            flow = query.stateful(at_stream_time(query, flow), inputs, query.logger(step))
        flow = _timestamped(step, query, flow, step.timestamp_column)
    if flow.nulls_empty_keys:
        flow = query.each(flow, _with_nulls, flow)
    write = _Writer(step, query, flow)
    query.then(flow, write.write, flow)
    return source


def _with_nulls(row: Row) -> Row:
    return row if row.key is None else row.with_key(tuple(None if each in ("", b"") else each for each in row.key))


class _Writer:
    """Turns rows into records of a topic."""

    def __init__(self, step: AnySink, query: GraphQuery, flow: Flow) -> None:
        key, value = query.specs(step.formats, flow, flow.schema.value)
        self._key, self._value = encoder(key), encoder(value)
        self._window, self._topic = flow.window, step.topic_name
        # Below a TIMESTAMP column, and where a DECIMAL may be wider than its type, a row that cannot be written is
        # dropped, and does not fail the query.
        guarded = step.timestamp_column is not None or any(has_own_scales(each.type) for each in flow.schema.columns)
        self._kind = PROCESSING if guarded else FATAL
        self._logger, self._logs_rows = f"{query.logger(step)}.serializer", query.logs_rows

    def write(self, made: Made, rows: Rows) -> Rows:
        """Write the rows; nothing comes after a sink."""
        for row in rows:
            try:
                key = self._key_of(row)
                value = self._value(row.value)
            except SerdeError as error:
                shown = json_row(row.value) if self._logs_rows and row.value is not None else None
                cause = (describe(error), *causes(error))
                made.log(row, self._kind, self._logger, str(error), cause, shown)
                continue
            record = Record(topic=self._topic, key=key, value=value, timestamp=row.timestamp, headers=row.headers)
            made.records.append((row.ordinal, record, row.cause))
        return []

    def _key_of(self, row: Row) -> bytes | None:
        key = self._key(row.key)
        if self._window is None or key is None:
            return key
        return join(key, row.window or (None, None), self._window)  # type: ignore[arg-type]


def _timestamped(step: AnySink, query: GraphQuery, flow: Flow, column: TimestampColumn) -> Flow:
    """Take timestamps from a column.

    Rows without a usable one are dropped, and NULL rows keep their timestamp (rules O17).
    """
    timestamps, log = Timestamps(query, flow, column), log_of(query, step)
    message = f"Error writing row with extracted timestamp: column {column.column}"

    def apply(made: Made, rows: Rows) -> Rows:
        found = []
        for row, time in zip(rows, timestamps(rows), strict=True):
            if row.value is None:
                found.append(row)
            elif time is None or time < 0:
                log.failed(made, row, message)
            else:
                found.append(replace(row, timestamp=time))
        return found

    return query.then(flow, apply, flow)
