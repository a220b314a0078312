"""Turns the records of topics into rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

import msgspec

from kestrel_sql.dataflow.graph import SourceRead
from kestrel_sql.dataflow.ingestion import message_reader
from kestrel_sql.dataflow.log_entries import DESERIALIZATION, FATAL, base64_of
from kestrel_sql.dataflow.rows import Entry, Listed, Ordinal, Part, Rows, Values
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import Decoder, SerdeSpec, causes
from kestrel_sql.formats.table import decoder
from kestrel_sql.formats.windowed_key import split
from kestrel_sql.operators.operator import Window
from kestrel_sql.process.batches import Made, Origin
from kestrel_sql.topics.records import Headers, Record, members_of

Numbered = Sequence[tuple[int, Record]]
"""Records with their numbers in the feed."""


_KEPT = 4096
"""So many messages stay decoded; queries that read a topic take them one after the other."""

_UNSEEN: Final = object()


class _SharedDecoder:
    """Decodes a message once for all readers of its topic; nobody changes what it returns."""

    _all: ClassVar[WeakValueDictionary[object, _SharedDecoder]] = WeakValueDictionary()

    def __init__(self, decode: Decoder) -> None:
        self._decode = decode
        self._seen: dict[bytes, Any] = {}

    @classmethod
    def of(cls, spec: SerdeSpec) -> _SharedDecoder:
        """Return the decoder of a spec that all readers share."""
        schemas = spec.schemas
        known = tuple(schemas.by_id.items()), tuple(schemas.latest.items())
        key = spec.format, spec.columns, spec.features, spec.side, spec.topic, known
        found = cls._all.get(key)
        if found is None:
            found = cls._all[key] = cls(decoder(spec))
        return found

    def __call__(self, data: bytes | None) -> Values | None:
        """Decode a message.

        Raises:
            SerdeError: it cannot be read.
        """
        if data is None:
            return self._decode(None)
        found: Any = self._seen.get(data, _UNSEEN)
        if found is _UNSEEN:
            found = self._decode(data)
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            self._seen[data] = found
        return found  # type: ignore[no-any-return]


class _Found(msgspec.Struct):
    """Rows in the making."""

    keys: list[Values | None] = []
    values: list[Values | None] = []
    ordinals: list[Ordinal] = []
    causes: list[Record] = []
    windows: list[Window | None] = []

    def add(
        self, key: Values | None, value: Values | None, ordinal: Ordinal, cause: Record, window: Window | None
    ) -> None:
        self.keys.append(key)
        self.values.append(value)
        self.ordinals.append(ordinal)
        self.causes.append(cause)
        self.windows.append(window)


class Reader:
    """Reads the records of one source."""

    def __init__(self, read: SourceRead) -> None:
        self.topic = read.topic
        self._read = read
        self._kind = FATAL if read.strict else DESERIALIZATION
        self._logger = f"{read.logger}.deserializer"
        schema = read.relation.schema
        self._widths = len(schema.key), len(schema.value)
        self._decode: Callable[[_Found, Made, Ordinal, Record], None]
        if read.ingestion is None:
            self._key, self._value = _SharedDecoder.of(read.key), _SharedDecoder.of(read.value)
            self._decode = self._decoded
        else:
            self._messages = message_reader(read.ingestion, read.key, read.value)
            self._decode = self._message

    def rows(self, made: Made, records: Numbered) -> Rows:
        """Decode records; those that cannot be read are logged and give no row."""
        found = _Found()
        for number, record in records:
            self._decode(found, made, (number, self._read.position), record)
        of_key, of_value = self._widths
        return Rows(
            key=Part.of(found.keys, of_key),
            value=Part.of(found.values, of_value),
            times=Listed([record.timestamp for record in found.causes]),
            headers=Listed([record.headers for record in found.causes]),
            origin=Origin(found.ordinals, found.causes, [record.partition for record in found.causes], found.windows),
            at=range(len(found.causes)),
        )

    def _decoded(self, found: _Found, made: Made, ordinal: Ordinal, record: Record) -> None:
        part, window = "key", None
        try:
            data = record.key
            if self._read.window is not None and data is not None:
                data, window = split(data, self._read.window)
            key = self._key(data)
            part = "value"
            value = self._value(record.value)
        except SerdeError as error:
            if not self._read.silent:
                data = record.key if part == "key" else record.value
                self._failed(made, ordinal, record, f"{part}: {error}", tuple(causes(error)), data)
            return
        whole = None if value is None else (*value, *self._added(record, key, window))
        found.add(key, whole, ordinal, record, window)

    def _added(self, record: Record, key: Values | None, window: Window | None) -> tuple[object, ...]:
        """The columns that a source adds behind the value (rules P6.1)."""
        headers = (header(record.headers, column.header_key) for column in self._read.headers)
        metadata = (record.timestamp, record.partition, record.offset)[: 1 if self._read.pseudo_version == 0 else 3]
        copied = (None,) * self._widths[0] if key is None else key
        return (*headers, *metadata, *copied, *(() if self._read.window is None else window or (None, None)))

    def _message(self, found: _Found, made: Made, ordinal: Ordinal, record: Record) -> None:
        message = self._messages.read(members_of(record))
        if message.error is not None:
            data = record.key if message.error.startswith("key: ") else record.value
            self._failed(made, ordinal, record, message.error, (), data)
        if message.is_row:
            value = message.value
            whole = None if value is None else (*value, *self._added(record, message.key, None))
            found.add(message.key, whole, ordinal, record, None)

    def _failed(
        self, made: Made, ordinal: Ordinal, record: Record, message: str, cause: tuple[str, ...], data: bytes | None
    ) -> None:
        shown = base64_of(data) if self._read.logs_rows else None
        made.log(
            ordinal, record, Entry(kind=self._kind, logger=self._logger, message=message, cause=cause, record=shown)
        )


def header(headers: Headers, name: str | None) -> object:
    """Return the last header of a name, or all headers if there is none."""
    if name is None:
        return [{"KEY": key, "VALUE": value} for key, value in headers]
    return next((value for key, value in reversed(headers) if key == name), None)
