"""KAFKA: one column, in the encoding of Kafka's primitive serializers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from kestrel_sql.arrow.late import Late, later
from kestrel_sql.errors import FormatError
from kestrel_sql.formats.format import UNWRAP, Columns, Format, column_list
from kestrel_sql.formats.known import none
from kestrel_sql.formats.serde import ConversionError, Decoder, Encoder, Row, SerdeSpec, guard_decoder, guard_encoder
from kestrel_sql.formats.spelling import Spelling, as_text
from kestrel_sql.java.numbers import java_double, wrap_integer
from kestrel_sql.java.utf16 import decode_utf8
from kestrel_sql.types.conversion import base_name
from kestrel_sql.types.sql_types import BIGINT, BYTES, DOUBLE, INTEGER, STRING, SqlType


def _fixed(layout: str, name: str) -> tuple[Callable[[bytes], object], Callable[[object], bytes]]:
    packer = struct.Struct(layout)

    def read(data: bytes) -> object:
        if len(data) != packer.size:
            raise ValueError(f"Size of data received by {name}Deserializer is not {packer.size}")
        return packer.unpack(data)[0]

    return read, packer.pack


PRIMITIVES: Mapping[SqlType, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    INTEGER: _fixed(">i", "Integer"),
    BIGINT: _fixed(">q", "Long"),
    DOUBLE: _fixed(">d", "Double"),
    # As in Java, invalid UTF-8 is no error.
    STRING: (decode_utf8, lambda text: text.encode("utf-8", "replace")),
    BYTES: (bytes, bytes),
}


def _functions(spec: SerdeSpec) -> tuple[Callable[[bytes], object], Callable[[object], bytes]]:
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
    message = f"Error deserializing KAFKA message from topic: {spec.topic}"
    return guard_decoder(spec, message, lambda data: (read(data),))


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


def _check(columns: Columns) -> str | None:
    if len(columns) > 1:
        return f"The 'KAFKA' format only supports a single field. Got: {column_list(columns)}"
    unsupported = next((column for column in columns if column.type not in PRIMITIVES), None)
    return f"The 'KAFKA' format does not support type '{base_name(unsupported.type)}'" if unsupported else None


def _write_case(spec: SerdeSpec, value: object) -> bytes:
    sql_type = spec.columns[0].type if spec.columns else BYTES
    write = PRIMITIVES[sql_type][1]
    if sql_type == STRING:
        return write(as_text(value))
    if sql_type == BYTES:
        return as_text(value).encode()
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise TypeError(f"expected a number, got {value!r}")
    if sql_type == DOUBLE:
        return write(float(value))
    return write(wrap_integer(int(value), 64) if sql_type == BIGINT else value)


def _read_case(spec: SerdeSpec, data: bytes) -> object:
    sql_type = spec.columns[0].type if spec.columns else BYTES
    value = PRIMITIVES[sql_type][0](data)
    if sql_type == DOUBLE:
        return Decimal(java_double(value))
    return decode_utf8(value) if sql_type == BYTES else value


_BULK = Late("kestrel_sql.formats.bulk.kafka")

FORMAT = Format(
    name="KAFKA",
    decoder=decoder,
    encoder=encoder,
    bulk_decoder=later(_BULK, "decoder"),
    bulk_encoder=later(_BULK, "encoder"),
    spelling=Spelling(_write_case, _read_case),
    features=frozenset({UNWRAP}),
    check=_check,
    supports_key=PRIMITIVES.__contains__,
    supports_many=False,
)
