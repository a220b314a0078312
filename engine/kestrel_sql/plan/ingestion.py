"""How the messages of a CREATE SOURCE … FROM KAFKA become rows (docs/adr/0012)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kestrel_sql.plan.step import Formats
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import BIGINT, BYTES, HEADERS_TYPE, INTEGER, STRING, TIMESTAMP, Field, SqlType, Struct

ERROR_TYPE = Struct((Field("DESCRIPTION", STRING),))
"""The type of the column of inline errors."""


class Envelope(Enum):
    """What a message does: NONE adds a row, UPSERT sets or deletes that of its key, DEBEZIUM does so with its after-image."""

    NONE = "NONE"
    UPSERT = "UPSERT"
    DEBEZIUM = "DEBEZIUM"


class MetadataItem(Enum):
    """What a metadata column holds of a message."""

    PARTITION = "PARTITION"
    OFFSET = "OFFSET"
    TIMESTAMP = "TIMESTAMP"
    TOPIC = "TOPIC"
    HEADERS = "HEADERS"
    HEADER_TEXT = "HEADER_TEXT"
    HEADER_BYTES = "HEADER_BYTES"


METADATA_TYPES: dict[MetadataItem, SqlType] = {
    MetadataItem.PARTITION: INTEGER,
    MetadataItem.OFFSET: BIGINT,
    MetadataItem.TIMESTAMP: TIMESTAMP,
    MetadataItem.TOPIC: STRING,
    MetadataItem.HEADERS: HEADERS_TYPE,
    MetadataItem.HEADER_TEXT: STRING,
    MetadataItem.HEADER_BYTES: BYTES,
}

HEADER_ITEMS = frozenset({MetadataItem.HEADER_TEXT, MetadataItem.HEADER_BYTES})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataColumn:
    """One of the last value columns of the source; `header_key` for single headers only."""

    item: MetadataItem
    header_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionSpec:
    """The way from a message to a row.

    `formats` and `message_schema` say how key and value are written. The key columns of the source are those of `message_schema`, in
    their order, whatever their names; with `key_record` they are the fields of its only key column. Its value columns are those of
    `message_schema`, too, then the one of the decoding error where `inline_errors` is set, then `metadata`. Under DEBEZIUM the only
    value column of `message_schema` is the after-image, and its fields that no key column has take its place. `start_offsets` are the
    first offsets to read, by partition, 0 for the others.
    """

    envelope: Envelope
    formats: Formats
    message_schema: Schema
    key_record: bool
    inline_errors: bool
    metadata: tuple[MetadataColumn, ...]
    start_offsets: tuple[int, ...]

    def after_fields(self) -> tuple[Field, ...]:
        """The fields of the after-image that are no key columns; none for the other envelopes."""
        if self.envelope is not Envelope.DEBEZIUM:
            return ()
        keys = {column.name for column in self.message_schema.key}
        image = self.message_schema.value[0].type
        return tuple(f for f in image.fields if f.name not in keys) if isinstance(image, Struct) else ()

    def value_columns(self) -> tuple[Column, ...]:
        """The value columns that the value of a message gives, by their names there."""
        if self.envelope is Envelope.DEBEZIUM:
            return tuple(Column(field.name, field.type) for field in self.after_fields())
        return self.message_schema.value

    def key_types(self) -> tuple[SqlType, ...]:
        """The types of all key columns of the source, in order."""
        columns = self.message_schema.key
        if self.key_record:
            return (Struct(tuple(Field(column.name, column.type) for column in columns)),)
        return tuple(column.type for column in columns)

    def value_types(self) -> tuple[SqlType, ...]:
        """The types of all value columns of the source, in order."""
        error = (ERROR_TYPE,) if self.inline_errors else ()
        return (*(c.type for c in self.value_columns()), *error, *(METADATA_TYPES[c.item] for c in self.metadata))
