"""Turns messages into rows for CREATE SOURCE … FROM KAFKA: formats, envelope and metadata (docs/adr/0012, rules K1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import Row, SerdeSpec
from kestrel_sql.formats.source_messages import message_decoder, quote_bytes
from kestrel_sql.plan.ingestion import Envelope, IngestionSpec, MetadataColumn, MetadataItem
from kestrel_sql.topics.records import Header, WireRecord

NULL_KEY = (
    "record with NULL key in UPSERT source; to retract this error, produce a record upstream with a NULL key and NULL"
    " value"
)
NO_VALUE = "a message without a value gives no row under ENVELOPE NONE"

_EARLIEST = -210_863_520_000_000
"""The earliest timestamp (ms) of Materialize: 1 January 4713 BC."""
_LATEST = 8_210_266_876_799_999
"""The latest timestamp (ms) of Materialize: 31 December 262142."""


class Message(msgspec.Struct, frozen=True):
    """The row of a record: its key and value (None is a deletion), an error, and whether there is a row at all."""

    key: Row | None = None
    value: Row | None = None
    error: str | None = None
    is_row: bool = True


NO_ROW = Message(is_row=False)


class MessageReader(msgspec.Struct, frozen=True):
    """Decodes the records of one source."""

    ingestion: IngestionSpec
    key: Callable[[bytes | None], Row | None]
    value: Callable[[bytes | None], Row | None]

    def read(self, record: WireRecord) -> Message:
        """Turn a record (columns of `WIRE_INPUT`) into key and value columns of the source."""
        if self._is_before_start(record):
            return NO_ROW
        try:
            key = self._key(record["key"])
        except SerdeError as error:
            return Message(error=f"key: {error}", is_row=False)
        if self.ingestion.envelope is Envelope.NONE:
            return self._inserted(record, key)
        if key is None or record["key"] is None:
            return Message(error=None if record["value"] is None else NULL_KEY, is_row=False)
        return self._upserted(record, key)

    def _is_before_start(self, record: WireRecord) -> bool:
        starts = self.ingestion.start_offsets
        return record["part"] < len(starts) and bool(record["off"] < starts[record["part"]])

    def _key(self, data: bytes | None) -> Row | None:
        key = self.key(data)
        if key is None or not self.ingestion.key_record:
            return key
        return (dict(zip((column.name for column in self.ingestion.message_schema.key), key, strict=True)),)

    def _inserted(self, record: WireRecord, key: Row | None) -> Message:
        if record["value"] is None:
            no_message = record["key"] is None or not self.ingestion.message_schema.key
            return NO_ROW if no_message else Message(error=f"value: {NO_VALUE}", is_row=False)
        try:
            value = self.value(record["value"])
            metadata = self._metadata(record)
        except SerdeError as error:
            return Message(error=f"value: {error}", is_row=False)
        return NO_ROW if value is None else Message(key, (*value, *metadata))

    def _upserted(self, record: WireRecord, key: Row) -> Message:
        if record["value"] is None:
            return Message(key)
        try:
            metadata = self._metadata(record)
            value = self._image(record["value"])
        except SerdeError as error:
            # The topic has a newer value than the row that the key had, so that row is deleted.
            return Message(key, error=f"value: {error}")
        return Message(key) if value is None else Message(key, (*value, *metadata))

    def _image(self, data: bytes) -> Row | None:
        """The value columns and the error column; None if the message is a deletion."""
        if self.ingestion.envelope is Envelope.DEBEZIUM:
            value = self.value(data)
            after = None if value is None else value[0]
            return None if after is None else tuple(after.get(field.name) for field in self.ingestion.after_fields())
        if not self.ingestion.inline_errors:
            return self.value(data)
        try:
            value = self.value(data)
        except SerdeError as error:
            return (*(None for _ in self.ingestion.message_schema.value), {"DESCRIPTION": str(error)})
        return None if value is None else (*value, None)

    def _metadata(self, record: WireRecord) -> Row:
        return tuple(_item(column, record) for column in self.ingestion.metadata)


def message_reader(ingestion: IngestionSpec, key: SerdeSpec, value: SerdeSpec) -> MessageReader:
    """Return the reader of a source; `key` and `value` have the columns of its messages.

    Raises:
        FormatError: a format does not support its columns.
    """
    return MessageReader(ingestion, message_decoder(key), message_decoder(value))


def _item(column: MetadataColumn, record: WireRecord) -> object:
    headers = record["headers"] or ()
    match column.item:
        case MetadataItem.PARTITION:
            return record["part"]
        case MetadataItem.OFFSET:
            return record["off"]
        case MetadataItem.TIMESTAMP:
            return record["ts"] if _EARLIEST <= record["ts"] <= _LATEST else None
        case MetadataItem.TOPIC:
            return record["topic"]
        case MetadataItem.HEADERS:
            return [{"KEY": header["key"], "VALUE": header["value"]} for header in headers]
        case MetadataItem.HEADER_BYTES:
            return _last(headers, column.header_key or "")
        case MetadataItem.HEADER_TEXT:
            return _text(_last(headers, column.header_key or ""), column.header_key or "")


def _last(headers: Sequence[Header], name: str) -> bytes | None:
    """The value of the last header with that name.

    NULL for a message without headers, an error if it has only other headers.
    """
    for header in reversed(headers):
        if header["key"] == name:
            return header["value"]
    if headers:
        raise SerdeError(f"A header with key '{name}' was not found in the message headers")
    return None


def _text(value: bytes | None, name: str) -> str | None:
    if value is None:
        return None
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        shown = quote_bytes(bytes(value))
        raise SerdeError(
            f"Found ill-formed byte sequence in header '{name}' that cannot be decoded as valid utf-8 (original bytes:"
            f" {shown})"
        ) from None
