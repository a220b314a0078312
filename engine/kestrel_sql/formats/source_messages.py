"""The formats of CREATE SOURCE … FROM KAFKA: TEXT, BYTES, JSON_DOCUMENT, CSV, REGEX, and AVRO and PROTOBUF with a schema of their own.

They are stricter than ksqlDB's: bytes that are no UTF-8 are an error, never replaced (rules K1.5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.capabilities import FULL_NAME
from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect.codec import Wire
from kestrel_sql.formats.delimited import first_record
from kestrel_sql.formats.registered import framing as framed
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.serde import Decoder, Row, SerdeSpec, causes, describe
from kestrel_sql.formats.table import decoder as table_decoder
from kestrel_sql.java.regex.time_limit import time_limited

SCHEMA = "schema"
"""The format property that holds a schema which the statement itself gives."""

SHOWN = 120
"""How many bytes of a message an error quotes."""

_PLAIN_DIGITS = 400


def message_decoder(spec: SerdeSpec) -> Decoder:
    """Make the function that turns the bytes of a message's side into a row; None for null bytes and for what is no row.

    The function raises SerdeError with the reason, the text and the bytes of what it cannot read.

    Raises:
        FormatError: the format cannot hold the columns, or its schema cannot be read.
    """
    decode = _DECODERS.get(spec.format.format, _with_schema)(spec)

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


def shown_bytes(data: bytes) -> str:
    """Bytes as an error quotes them, such as `[c3, 28]`."""
    more = ", …" if len(data) > SHOWN else ""
    return f"[{', '.join(f'{byte:02x}' for byte in data[:SHOWN])}{more}]"


def _failure(spec: SerdeSpec, reason: str, data: bytes) -> SerdeError:
    text = data[:SHOWN].decode("utf-8", "replace")
    name = spec.format.format.removesuffix("_DOCUMENT")
    return SerdeError(f"Failed to decode {name}: {reason} (original text: {text}, original bytes: {shown_bytes(data)})")


def _text(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return lambda data: (data.decode("utf-8"),)


def _bytes(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return lambda data: (data,)


def _json(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return lambda data: (normal_json(data.decode("utf-8")),)


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
    # Some patterns take for ever on some messages (docs/adr/0010).
    search = time_limited(re.compile(spec.format.property("pattern") or "").search)

    def decode(data: bytes) -> Row | None:
        found = search(data.decode("utf-8"))
        return None if found is None else found.groups()

    return decode


_DECODERS: Mapping[str, Callable[[SerdeSpec], Callable[[bytes], Row | None]]] = {
    "TEXT": _text,
    "BYTES": _bytes,
    "JSON_DOCUMENT": _json,
    "CSV": _csv,
    "REGEX": _regex,
}


def _with_schema(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    return table_decoder(spec) if spec.format.property(SCHEMA) is None else _own_schema(spec)


def _own_schema(spec: SerdeSpec) -> Callable[[bytes], Row | None]:
    language, wire = LANGUAGES[spec.format.format], own_wire(spec)
    read = connect_read.row_reader(
        wire.schema, language.wire_columns(spec.columns), language.is_unwrapped(wire.schema, spec.unwrapped)
    )
    return lambda data: read(wire.read(body_of(spec, data)))


def own_wire(spec: SerdeSpec) -> Wire:
    """Open the schema that the format itself holds.

    Raises:
        FormatError: it is no schema of its language.
    """
    language = LANGUAGES[spec.format.format]
    text = spec.format.property(SCHEMA) or ""
    return language.open_wire(text, {}, language.definition(text, {}, spec.format.property(FULL_NAME)))


def body_of(spec: SerdeSpec, data: bytes) -> bytes:
    """What a schema of the statement reads: AVRO stands behind a frame whose id does not count, PROTOBUF has no frame."""
    return framed.split_frame(data)[1] if spec.format.format == "AVRO" else data


def framed_body(spec: SerdeSpec, body: bytes) -> bytes:
    """The message that `body_of` takes `body` from."""
    return framed.frame(framed.OWN_ID, body) if spec.format.format == "AVRO" else body


def normal_json(text: str) -> str:
    """A JSON text in its normal form: no blanks, members by name, the last of equal names, numbers without needless digits.

    Raises:
        ValueError: no JSON, or text that is no Unicode.
    """
    value = json.loads(text, parse_float=Decimal, parse_constant=_no_number)
    written = _written(value)
    written.encode("utf-8")
    return written


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _written(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_quoted(name)}:{_written(value[name])}" for name in sorted(value)) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
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
