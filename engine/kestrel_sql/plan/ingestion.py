"""Describes how the messages of a CREATE SOURCE … FROM KAFKA become rows (docs/adr/0012)."""

from __future__ import annotations

from enum import Enum

import msgspec

from kestrel_sql.plan.step import Formats
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import BIGINT, BYTES, HEADERS_TYPE, INTEGER, STRING, TIMESTAMP, Field, SqlType, Struct

ERROR_TYPE = Struct((Field("DESCRIPTION", STRING),))
"""The type of the column that holds decoding errors (`INCLUDE … ERROR`)."""


class Envelope(Enum):
    """What a message does.

    NONE appends a row; UPSERT sets or deletes the row of its key; DEBEZIUM does so with its after-image.
    """

    NONE = "NONE"
    UPSERT = "UPSERT"
    DEBEZIUM = "DEBEZIUM"


class MetadataItem(Enum):
    """The part of a message that a metadata column holds."""

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


class MetadataColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A metadata column of the source; `header_key` is set for HEADER_TEXT and HEADER_BYTES only."""

    item: MetadataItem
    header_key: str | None = None


class IngestionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How a message becomes a row of the source.

    Attributes:
        envelope: what a message does.
        formats: the serdes of the message's key and value.
        message_schema: the columns of the message, under their own names. Under DEBEZIUM its only value column is the
            after-image, a STRUCT.
        key_record: whether the source has one key column, a STRUCT of all key columns of the message.
        inline_errors: whether the source has a column for decoding errors; UPSERT only.
        metadata: the metadata columns, which come last.
        start_offsets: the first offset to read of each partition; partitions beyond the list start at 0.

    The value columns of the source are those of the message (under DEBEZIUM the fields of the after-image that are not
    key columns), then the error column, then the metadata columns. Columns match by position; names may differ.
    """

    envelope: Envelope
    formats: Formats
    message_schema: Schema
    key_record: bool
    inline_errors: bool
    metadata: tuple[MetadataColumn, ...]
    start_offsets: tuple[int, ...]

    def after_fields(self) -> tuple[Field, ...]:
        """The fields of the after-image that are not key columns; empty for the other envelopes."""
        if self.envelope is not Envelope.DEBEZIUM:
            return ()
        keys = {column.name for column in self.message_schema.key}
        image = self.message_schema.value[0].type
        return tuple(f for f in image.fields if f.name not in keys) if isinstance(image, Struct) else ()

    def value_columns(self) -> tuple[Column, ...]:
        """The value columns that come from the message's value, under their names in the message."""
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
