"""Converts the JSON form of keys and values in test cases (rules Q6) to bytes, and bytes to comparable values."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping

from kestrel_sql.errors import EngineError, SerdeError
from kestrel_sql.formats import source_messages as messages
from kestrel_sql.formats.json import text as json_text
from kestrel_sql.formats.serde import SerdeSpec, describe
from kestrel_sql.formats.spelling import TEXT, Spelling, as_text, to_connect
from kestrel_sql.formats.table import format_of


def from_json_form(spec: SerdeSpec, value: object) -> bytes | None:
    """Encode the key or value of an input record; numbers are int or `decimal.Decimal`, None becomes null bytes.

    Raises:
        SerdeError: the format cannot encode the value.
    """
    if value is None:
        return None
    try:
        return _spelling(spec).write(spec, value)
    except SerdeError:
        raise
    except (EngineError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, struct.error) as error:
        raise SerdeError(
            f"Cannot write {spec.side.value} of topic {spec.topic} as {spec.format.format}: {describe(error)}"
        ) from error


def to_json_form(spec: SerdeSpec, data: bytes | None) -> object:
    """Decode the key or value of an output record.

    Fractions are exact decimals in formats that write text; bytes stay bytes.

    Raises:
        SerdeError: the format cannot decode the bytes.
    """
    if data is None:
        return None
    try:
        return _spelling(spec).read(spec, data)
    except SerdeError:
        raise
    except Exception as error:
        raise SerdeError(
            f"Cannot read {spec.side.value} of topic {spec.topic} as {spec.format.format}: {describe(error)}"
        ) from error


def _write_inline(spec: SerdeSpec, value: object) -> bytes:
    own = messages.inline_codec(spec)
    return messages.frame_body(spec, own.write(to_connect(own.schema, value)))


def _read_inline(spec: SerdeSpec, data: bytes) -> object:
    return messages.inline_codec(spec).read(messages.message_body(spec, data))


_INLINE = Spelling(_write_inline, _read_inline)

_OF_MESSAGES: Mapping[str, Spelling] = {
    "TEXT": TEXT,
    "CSV": TEXT,
    "REGEX": TEXT,
    "BYTES": Spelling(lambda spec, value: base64.b64decode(as_text(value), validate=True), lambda spec, data: data),
    # A string is written as it is, so that a case can hold an invalid document.
    "JSON_DOCUMENT": Spelling(
        lambda spec, value: (value if isinstance(value, str) else json_text.write_compact(value)).encode(),
        lambda spec, data: json_text.read_exact(data),
    ),
}
"""The formats that only a CREATE SOURCE … FROM KAFKA has."""


def _spelling(spec: SerdeSpec) -> Spelling:
    if spec.format.property(messages.SCHEMA) is not None:
        return _INLINE
    return _OF_MESSAGES.get(spec.format.format) or format_of(spec.format.format).spelling
