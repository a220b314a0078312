"""The formats of CREATE SOURCE … FROM KAFKA: TEXT, BYTES, JSON, CSV, REGEX, and AVRO and PROTOBUF with inline schemas.

They are stricter than ksqlDB's formats: invalid UTF-8 is an error and is never replaced (rules K1.5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect.codec import SchemaCodec
from kestrel_sql.formats.known.delimited import first_record
from kestrel_sql.formats.properties import FULL_NAME
from kestrel_sql.formats.registered import framing as framed
from kestrel_sql.formats.registered.languages import language_for
from kestrel_sql.formats.serde import Decoder, Row, SerdeSpec, causes, describe
from kestrel_sql.formats.table import decoder as table_decoder
from kestrel_sql.java.regex.timed_matching import groups

SCHEMA = "schema"
"""The format property with an inline schema, given in the statement itself."""

MAX_QUOTED_BYTES = 120
"""The maximal number of bytes of a message that an error quotes."""

_PLAIN_DIGITS = 400


def message_decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of keys or values; it returns None for null bytes and for bytes that give no row.

    The decoder raises SerdeError with the reason, the text and the bytes of a message that it cannot decode.

    Raises:
        FormatError: the format does not support the columns, or its schema is invalid.
    """
    decode = _DECODERS.get(spec.format.format, _schema_decoder)(spec)

    def guarded(data: bytes | None) -> Row | None:
        if data is None:
            return None
        try:
            return decode(data)
        except SerdeError as error:
            raise _failure(spec, "; ".join([str(error), *causes(error)]), data) from None
        except Exception as error:
            raise _failure(spec, describe(error), data) from error

    return guarded


def quote_bytes(data: bytes) -> str:
    """Write bytes as an error quotes them, such as `[c3, 28]`."""
    more = ", …" if len(data) > MAX_QUOTED_BYTES else ""
    return f"[{', '.join(f'{byte:02x}' for byte in data[:MAX_QUOTED_BYTES])}{more}]"


def _failure(spec: SerdeSpec, reason: str, data: bytes) -> SerdeError:
    text = data[:MAX_QUOTED_BYTES].decode("utf-8", "replace")
    name = spec.format.format.removesuffix("_DOCUMENT")
    return SerdeError(f"Failed to decode {name}: {reason} (original text: {text}, original bytes: {quote_bytes(data)})")


def _text(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return lambda data: (data.decode("utf-8"),)


def _bytes(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return lambda data: (data,)


def _json(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return lambda data: (canonical_json(data.decode("utf-8")),)


def _csv(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    delimiter = spec.format.property("delimiter") or ","
    count = len(spec.columns)

    def decode(data: bytes) -> Row:
        fields = first_record(data.decode("utf-8"), delimiter)
        if len(fields) != count:
            raise ValueError(f"a record of {len(fields)} columns, {count} are declared")
        return tuple(fields)

    return decode


def _regex(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    pattern = spec.format.property("pattern") or ""

    def decode(data: bytes) -> Row | None:
        # Some patterns take forever on some messages (docs/adr/0010).
        found = groups(pattern, data.decode("utf-8"))
        return None if found is None else tuple(found)

    return decode


_DECODERS: Mapping[str, Callable[[SerdeSpec], Callable[[bytes], Row | None]]] = {
    "TEXT": _text,
    "BYTES": _bytes,
    "JSON_DOCUMENT": _json,
    "CSV": _csv,
    "REGEX": _regex,
}


def _schema_decoder(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return table_decoder(spec) if spec.format.property(SCHEMA) is None else _inline_schema_decoder(spec)


def _inline_schema_decoder(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    language, codec = language_for(spec.format), inline_codec(spec)
    read = connect_read.row_reader(
        codec.schema, language.schema_columns(spec.columns), language.is_unwrapped(codec.schema, spec.unwrapped)
    )
    return lambda data: read(codec.read(message_body(spec, data)))


def inline_codec(spec: SerdeSpec) -> SchemaCodec:
    """Return the codec of the inline schema.

    Raises:
        FormatError: the schema is invalid.
    """
    language = language_for(spec.format)
    text = spec.format.property(SCHEMA) or ""
    return language.open_codec(text, {}, language.find_definition(text, {}, spec.format.property(FULL_NAME)))


def message_body(spec: SerdeSpec, data: bytes) -> bytes:
    """Return the bytes that an inline schema decodes: AVRO has a frame, whose id is ignored, PROTOBUF has none."""
    return framed.split_frame(data)[1] if spec.format.format == "AVRO" else data


def frame_body(spec: SerdeSpec, body: bytes) -> bytes:
    """Return a message with `body`; inverse of `message_body`."""
    return framed.frame(framed.GENERATED_ID, body) if spec.format.format == "AVRO" else body


def canonical_json(text: str) -> str:
    """Return a JSON text in canonical form: no blanks, sorted members, the last of equal names, shortest numbers.

    Raises:
        ValueError: the text is not JSON, or not Unicode.
    """
    value = json.loads(text, parse_float=Decimal, parse_constant=_reject_constant)
    text = _write_json(value)
    text.encode("utf-8")
    return text


def _reject_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not a JSON number")


def _write_json(value: object) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_quoted(name)}:{_write_json(value[name])}" for name in sorted(value)) + "}"
        case list():
            return "[" + ",".join(map(_write_json, value)) + "]"
        case Decimal():
            return _number(value)
        case str():
            return _quoted(value)
        case _:
            return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(value: Decimal) -> str:
    if not value:
        return "0"
    if abs(value.adjusted()) > _PLAIN_DIGITS:
        return str(value)
    plain = format(value, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
