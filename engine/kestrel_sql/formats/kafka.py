"""KAFKA: one column, in the encoding of Kafka's primitive serializers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.errors import FormatError
from kestrel_sql.formats import none
from kestrel_sql.formats.serde import ConversionError, Decoder, Encoder, Row, SerdeSpec, guard_decoder, guard_encoder
from kestrel_sql.java.utf16 import decode_utf8
from kestrel_sql.types.sql_types import BIGINT, BYTES, DOUBLE, INTEGER, STRING, SqlType


def _fixed(layout: str, name: str) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    packer = struct.Struct(layout)

    def read(data: bytes) -> Any:
        if len(data) != packer.size:
            raise ValueError(f"Size of data received by {name}Deserializer is not {packer.size}")
        return packer.unpack(data)[0]

    return read, packer.pack


def _read_text(data: bytes) -> str:
    # Java's decoder replaces malformed input, so invalid UTF-8 is no error.
    return decode_utf8(data)


def _write_text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


PRIMITIVES: Mapping[SqlType, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    INTEGER: _fixed(">i", "Integer"),
    BIGINT: _fixed(">q", "Long"),
    DOUBLE: _fixed(">d", "Double"),
    STRING: (_read_text, _write_text),
    BYTES: (bytes, bytes),
}


def _functions(spec: SerdeSpec) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    if len(spec.columns) != 1:
        raise FormatError(
            f"The 'KAFKA' format only supports a single field. Got: [{', '.join(map(str, spec.columns))}]"
        )
    functions = PRIMITIVES.get(spec.columns[0].type)
    if functions is None:
        raise FormatError(f"The 'KAFKA' format does not support type '{spec.columns[0].type}'")
    return functions


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of the only column; without columns the bytes are ignored.

    Raises:
        FormatError: there are several columns, or Kafka has no serializer for the type.
    """
    if not spec.columns:
        return none.decoder(spec)
    read, _ = _functions(spec)

    def decode(data: bytes) -> Row:
        return (read(data),)

    return guard_decoder(spec, f"Error deserializing KAFKA message from topic: {spec.topic}", decode)


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder of the only column; NULL becomes null bytes.

    Raises:
        FormatError: there are several columns, or Kafka has no serializer for the type.
    """
    if not spec.columns:
        return none.encoder(spec)
    _, write = _functions(spec)
    path = f".{spec.columns[0].name}"

    def encode(row: Row) -> bytes | None:
        (value,) = row
        if value is None:
            return None
        try:
            return write(value)
        except (struct.error, TypeError, AttributeError) as error:
            raise ConversionError(str(error), path) from error

    return guard_encoder(spec, encode)
