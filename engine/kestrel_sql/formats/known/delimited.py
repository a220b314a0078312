"""DELIMITED: one CSV record per message, in the dialect of commons-csv 1.4 (rules F4.3)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.format import UNWRAP, Columns, Format
from kestrel_sql.formats.properties import DELIMITER
from kestrel_sql.formats.serde import ConversionError, Decoder, Encoder, Row, SerdeSpec, guard_decoder, guard_encoder
from kestrel_sql.formats.spelling import TEXT
from kestrel_sql.java.numbers import fit_decimal, java_double, parse_decimal, parse_double, parse_int, parse_long
from kestrel_sql.java.utf16 import decode_utf8
from kestrel_sql.types.conversion import base_name
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Base, Decimal, Primitive, SqlType
from kestrel_sql.types.time_units import DAY_MS

DELIMITER_NAMES = {"SPACE": " ", "TAB": "\t"}


def delimiter_of(spec: SerdeSpec) -> str:
    """Return the delimiter of a spec, `,` by default."""
    delimiter = spec.format.property(DELIMITER)
    return "," if delimiter is None else DELIMITER_NAMES.get(delimiter.upper(), delimiter)


def _read_time(text: str) -> int:
    value = parse_int(text)
    if not 0 <= value <= DAY_MS:
        raise ValueError("Time values must use number of milliseconds greater than 0 and less than 86400000.")
    return value


def reader(sql_type: SqlType) -> Callable[[str], object]:
    """Make a function from the text of a field to a value; it raises ValueError for other texts.

    Raises:
        FormatError: a field cannot hold the type.
    """
    if isinstance(sql_type, Decimal):
        precision, scale = sql_type.precision, sql_type.scale
        return lambda text: fit_decimal(parse_decimal(text), precision, scale)
    return _READERS[_primitive(sql_type).base]


_READERS: Mapping[Base, Callable[[str], object]] = {
    Base.BOOLEAN: lambda text: text.lower() == "true",
    Base.INTEGER: parse_int,
    Base.BIGINT: parse_long,
    Base.DOUBLE: parse_double,
    Base.STRING: str,
    Base.BYTES: lambda text: base64.b64decode(text, validate=True),
    Base.TIME: _read_time,
    Base.DATE: parse_int,
    Base.TIMESTAMP: parse_long,
}


def _writer(sql_type: SqlType) -> Callable[..., str]:
    if isinstance(sql_type, Decimal):
        return lambda value: format(value, "f")
    match _primitive(sql_type).base:
        case Base.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Base.DOUBLE:
            return java_double
        case Base.BYTES:
            return lambda value: binascii.b2a_base64(value, newline=False).decode("ascii")
        case _:
            return str


def _primitive(sql_type: SqlType) -> Primitive:
    if isinstance(sql_type, Primitive):
        return sql_type
    raise FormatError(f"The 'DELIMITED' format does not support type '{str(sql_type).partition('<')[0]}'")


def first_record(text: str, delimiter: str) -> list[str]:
    """Split the first CSV record of `text` into its fields; skip blank lines before it.

    Raises:
        ValueError: there is no record, or a quoted field does not end properly.
    """
    start = 0
    while start < len(text) and text[start] in "\r\n":
        start += 1
    if start == len(text):
        raise ValueError("No fields in record")
    fields: list[str] = []
    at = start
    while True:
        field, at = _quoted(text, at + 1, delimiter) if text[at : at + 1] == '"' else _plain(text, at, delimiter)
        fields.append(field)
        if text[at : at + 1] != delimiter:
            return fields
        at += 1


def _plain(text: str, at: int, delimiter: str) -> tuple[str, int]:
    end = at
    while end < len(text) and text[end] not in "\r\n" and text[end] != delimiter:
        end += 1
    return text[at:end], end


def _quoted(text: str, at: int, delimiter: str) -> tuple[str, int]:
    parts: list[str] = []
    while True:
        end = text.find('"', at)
        if end < 0:
            raise ValueError("EOF reached before encapsulated token finished")
        parts.append(text[at:end])
        at = end + 1
        if text[at : at + 1] != '"':
            break
        parts.append('"')
        at += 1
    while at < len(text) and text[at] != delimiter and text[at] not in "\r\n":
        if not text[at].isspace():
            raise ValueError("Invalid char between encapsulated token and delimiter")
        at += 1
    return "".join(parts), at


def _quote(text: str, first: bool, delimiter: str) -> str:
    if not text:
        return '""' if first else ""
    start = text[0]
    needed = (
        (first and not (start.isascii() and start.isalnum()))
        or start <= "#"
        or text[-1] <= " "
        or delimiter in text
        or any(mark in text for mark in '"\r\n')
    )
    return '"' + text.replace('"', '""') + '"' if needed else text


def _count_error(direction: str, spec: SerdeSpec, got: int) -> ValueError:
    return ValueError(
        f"Column count mismatch on {direction}. topic: {spec.topic}, expected: {len(spec.columns)}, got: {got}"
    )


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of one CSV record.

    Raises:
        FormatError: a column has a nested type.
    """
    delimiter = delimiter_of(spec)
    readers = [(column, reader(column.type)) for column in spec.columns]

    def decode(data: bytes) -> Row:
        text = decode_utf8(data)
        special = not text or '"' in text or "\n" in text or "\r" in text
        fields = first_record(text, delimiter) if special else text.split(delimiter)
        if len(fields) != len(readers):
            raise _count_error("deserialization", spec, len(fields))
        return tuple([_read(column, read, field) for (column, read), field in zip(readers, fields, strict=True)])

    return guard_decoder(spec, "Error deserializing delimited", decode)


def _read(column: Column, read: Callable[[str], object], field: str) -> object:
    if not field:
        return None
    try:
        return read(field)
    except ValueError as error:
        raise ConversionError(str(error), f".{column.name}") from error


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder of one CSV record without a line end.

    Raises:
        FormatError: a column has a nested type.
    """
    delimiter = delimiter_of(spec)
    writers = [_writer(column.type) for column in spec.columns]
    single = len(writers) == 1

    def encode(row: Row) -> bytes | None:
        if len(row) != len(writers):
            raise _count_error("serialization", spec, len(row))
        if single and row[0] is None:
            return b""
        texts = [
            _field(write, value, at == 0, delimiter) for at, (write, value) in enumerate(zip(writers, row, strict=True))
        ]
        return delimiter.join(texts).encode("utf-8", "replace")

    return guard_encoder(spec, encode)


def _field(write: Callable[..., str], value: object, first: bool, delimiter: str) -> str:
    return "" if value is None else _quote(write(value), first, delimiter)


def _check(columns: Columns) -> str | None:
    unsupported = next((column for column in columns if not isinstance(column.type, Primitive | Decimal)), None)
    if unsupported is None:
        return None
    return f"The 'DELIMITED' format does not support type '{base_name(unsupported.type)}', column: `{unsupported.name}`"


FORMAT = Format(
    name="DELIMITED",
    decoder=decoder,
    encoder=encoder,
    spelling=TEXT,
    loses_empty=True,
    features=frozenset({UNWRAP}),
    properties=frozenset({DELIMITER}),
    inheritable=frozenset({DELIMITER}),
    check=_check,
    supports_key=lambda sql_type: isinstance(sql_type, Primitive),
)
