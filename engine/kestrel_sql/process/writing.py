"""Turns rows into records of topics."""

from __future__ import annotations

from kestrel_sql.dataflow.graph import SinkWrite
from kestrel_sql.dataflow.log_entries import FATAL, PROCESSING, json_row
from kestrel_sql.dataflow.rows import Entry, Rows, Values
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import causes, describe
from kestrel_sql.formats.table import encoder
from kestrel_sql.formats.windowed_key import join
from kestrel_sql.operators.operator import Window
from kestrel_sql.process.batches import Made, ordinals_of
from kestrel_sql.topics.records import Record


class Writer:
    """Writes the rows of one sink."""

    def __init__(self, write: SinkWrite) -> None:
        self._write = write
        self._key, self._value = encoder(write.key), encoder(write.value)
        self._kind = PROCESSING if write.guarded else FATAL
        self._logger = f"{write.logger}.serializer"

    def write(self, made: Made, rows: Rows) -> None:
        """Write the rows."""
        origin = rows.origin
        columns = zip(
            rows.at,
            ordinals_of(rows),
            rows.key.rows(),
            rows.value.rows(),
            rows.times.values(),
            rows.headers.values(),
            strict=True,
        )
        for at, ordinal, key, value, timestamp, headers in columns:
            cause = origin.causes[at]
            try:
                data = self._key_of(key, origin.windows[at])
                written = self._value(value)
            except SerdeError as error:
                shown = json_row(value) if self._write.logs_rows and value is not None else None
                why = (describe(error), *causes(error))
                entry = Entry(kind=self._kind, logger=self._logger, message=str(error), cause=why, record=shown)
                made.log(ordinal, cause, entry)
                continue
            record = Record(topic=self._write.topic, key=data, value=written, timestamp=timestamp, headers=headers)
            made.records.append((ordinal, record, cause))

    def _key_of(self, key: Values | None, window: Window | None) -> bytes | None:
        data = self._key(key)
        if self._write.window is None or data is None:
            return data
        return join(data, window or (None, None), self._write.window)  # type: ignore[arg-type]
