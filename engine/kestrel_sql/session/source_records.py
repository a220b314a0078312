"""Encodes and decodes the records of a stream or table, from and to JSON or rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import FormatError, SerdeError, did_you_mean
from kestrel_sql.formats.known.delimited import reader
from kestrel_sql.formats.record_json import from_json_form, to_json_form
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.formats.table import decoder, encoder
from kestrel_sql.formats.windowed_key import Window, join, split
from kestrel_sql.topics.records import Headers, Record
from kestrel_sql.types.schema import ROWTIME
from kestrel_sql.types.sql_types import BOOLEAN, SqlType


def source_spec(source: Source, side: Side) -> SerdeSpec:
    """Return the serde spec of a source's keys or values, without the schemas of the registry."""
    formats, schema = source.message_formats, source.message_schema
    if side is Side.KEY:
        return SerdeSpec(formats.key_format, schema.key, formats.key_features, side, source.topic)
    return SerdeSpec(formats.value_format, schema.value, formats.value_features, side, source.topic)


class SourceRecords(msgspec.Struct, frozen=True):
    """Encodes and decodes the records of a source; `key` and `value` include the registry's schemas."""

    source: Source
    key: SerdeSpec
    value: SerdeSpec

    @staticmethod
    def of(source: Source, serde: Callable[[SerdeSpec], SerdeSpec]) -> SourceRecords:
        """Make the codec of a source; `serde` adds the registry's schemas to a spec, as `Session.serde()` does."""
        return SourceRecords(source, *(serde(source_spec(source, side)) for side in (Side.KEY, Side.VALUE)))

    @property
    def window_kind(self) -> str:
        """The name of the source's windows in the JSON form: `session` or `time`."""
        return "session" if self.source.window is not None and self.source.window.size_ms is None else "time"

    def from_json(
        self, key: object, value: object, timestamp: int, *, window: Window | None = None, headers: Headers = ()
    ) -> Record:
        """Encode a record from the JSON form of its key and value; a source without windows ignores `window`.

        Raises:
            SerdeError: a format cannot encode the key or the value.
        """
        return Record(
            topic=self.source.topic,
            key=self.key_from_json(key, window),
            value=from_json_form(self.value, value),
            timestamp=timestamp,
            headers=headers,
        )

    def key_from_json(self, key: object, window: Window | None = None) -> bytes | None:
        """Encode a key from its JSON form, with the window if there is one.

        Raises:
            SerdeError: the format cannot encode the key.
        """
        bare = from_json_form(self.key, key)
        return (
            bare
            if bare is None or window is None or self.source.window is None
            else join(bare, window, self.source.window)
        )

    def key_to_json(self, data: bytes | None) -> tuple[Any, Window | None]:
        """Decode a key to its JSON form, and its window if the source has windows.

        Raises:
            SerdeError: the bytes are not a key of this source.
        """
        bare, window = self._split(data)
        return to_json_form(self.key, bare), window

    def value_to_json(self, data: bytes | None) -> Any:
        """Decode a value to its JSON form.

        Raises:
            SerdeError: the bytes are not a value of this source.
        """
        return to_json_form(self.value, data)

    def from_row(self, row: Mapping[str, object], timestamp: int) -> Record:
        """Encode a record from values by column name.

        Raises:
            SerdeError: a format cannot encode the row.
        """
        schema = self.source.schema
        key = tuple(row.get(column.name) for column in schema.key)
        value = tuple(row.get(column.name) for column in schema.value)
        return Record(
            topic=self.source.topic,
            key=encoder(self.key)(key),
            value=encoder(self.value)(value),
            timestamp=timestamp,
        )

    def from_cells(self, cells: Mapping[str, str | None], timestamp: int) -> Record:
        """Encode a record from the fields of a CSV row by column name; None is NULL, absent columns are NULL.

        Raises:
            SerdeError: a name is no column, a field does not fit its type, or a format cannot encode the row.
        """
        columns = {column.name: column.type for column in (*self.source.schema.key, *self.source.schema.value)}
        row: dict[str, object] = {}
        for given, text in cells.items():
            name = given if given in columns else given.upper()
            if name not in columns:
                hint = did_you_mean(name, columns) or f"its columns are {', '.join(columns)}"
                raise SerdeError(f"{given} is not a column of {self.source.name}", hint=hint)
            row[name] = None if text is None else _field(name, columns[name], text)
        return self.from_row(row, timestamp)

    def to_row(self, record: Record) -> dict[str, object]:
        """Decode a record to values by column name, with ROWTIME; the columns of a null key or value are NULL.

        Raises:
            SerdeError: the formats cannot decode the bytes.
        """
        schema = self.source.schema
        key = decoder(self.key)(self._split(record.key)[0]) or (None,) * len(schema.key)
        value = decoder(self.value)(record.value) or (None,) * len(schema.value)
        named = zip((*schema.key, *schema.value), (*key, *value), strict=True)
        return {ROWTIME.name: record.timestamp, **{column.name: part for column, part in named}}

    def _split(self, key: bytes | None) -> tuple[bytes | None, Window | None]:
        return (key, None) if key is None or self.source.window is None else split(key, self.source.window)


def _field(name: str, sql_type: SqlType, text: str) -> object:
    """The value of a CSV field; raise SerdeError."""
    if sql_type == BOOLEAN and text.lower() not in ("true", "false"):
        raise SerdeError(f"expected true or false for {name}, got {text!r}")
    try:
        return reader(sql_type)(text)
    except FormatError as error:
        raise SerdeError(
            f"{name} is a {sql_type}, which a CSV field cannot hold", hint="write the records as JSON lines"
        ) from error
    except ValueError as error:
        raise SerdeError(f"expected a value of type {sql_type} for {name}, got {text!r}") from error
