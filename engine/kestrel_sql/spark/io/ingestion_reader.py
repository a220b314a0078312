"""Turns the records of a source FROM KAFKA into structs of its relation."""

from __future__ import annotations

import pyarrow as pa

from kestrel_sql.arrow.columns import array_of
from kestrel_sql.arrow.values import row_converter
from kestrel_sql.dataflow.graph import SourceRead
from kestrel_sql.dataflow.ingestion import Message, message_reader
from kestrel_sql.dataflow.log_entries import DESERIALIZATION, FATAL, base64_of
from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.spark.envelope import struct_field
from kestrel_sql.spark.io.source_reader import Read
from kestrel_sql.topics.records import WireRecord


class IngestionReader:
    """Decodes the records of one source."""

    def __init__(self, source: SourceRead, ingestion: IngestionSpec) -> None:
        self.source = source
        self._reader = message_reader(ingestion, source.key, source.value)
        schema = source.relation.schema
        self._type = struct_field(source.relation).type
        self._to_key = row_converter(schema.key)
        self._to_value = row_converter(schema.value)
        self._keys = len(schema.key)

    def read(self, batch: pa.RecordBatch) -> Read:
        """Decode a batch whose records are all for this source (columns of `WIRE_INPUT`)."""
        rows = batch.to_pylist()
        messages = [self._reader.read(row) for row in rows]
        structs = [self._struct(message, row) for message, row in zip(messages, rows, strict=True)]
        nothing = pa.nulls(len(rows), pa.int64())
        return Read(
            array_of(structs, self._type),
            nothing,
            nothing,
            {
                at: self._entry(message.error, rows[at])
                for at, message in enumerate(messages)
                if message.error is not None
            },
            frozenset(at for at, message in enumerate(messages) if not message.is_row),
        )

    def _struct(self, message: Message, row: WireRecord) -> dict[str, object] | None:
        if not message.is_row:
            return None
        value = None if message.value is None else self._to_value(self._whole(message, row))
        return {"k": self._to_key(message.key), "v": value}

    def _whole(self, message: Message, row: WireRecord) -> tuple[object, ...]:
        """The value with the columns that a source adds (rules P6.1)."""
        key = (None,) * self._keys if message.key is None else message.key
        return (*(message.value or ()), row["ts"], row["part"], row["off"], *key)

    def _entry(self, error: str, row: WireRecord) -> dict[str, object]:
        kind = FATAL if self.source.strict else DESERIALIZATION
        data = row["key"] if error.startswith("key: ") else row["value"]
        record = base64_of(data) if self.source.logs_rows else None
        return {"kind": kind, "logger": f"{self.source.logger}.deserializer", "message": error, "record": record}
