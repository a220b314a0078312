"""Reads and writes JSON text as Jackson does: exact decimals, the first value of the text, a limit on nesting."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import NoReturn

import orjson

from kestrel_sql.java.numbers import java_double

MAX_NUMBER_DIGITS = 1000
"""Jackson rejects longer numbers."""

_HALF = re.compile("[\ud800-\udfff]")
_BLANKS = re.compile(r"[ \t\r\n]*")


def _exact_decimal(text: str) -> Decimal:
    if len(text) > MAX_NUMBER_DIGITS:
        raise ValueError(f"Number value length ({len(text)}) exceeds the maximum allowed ({MAX_NUMBER_DIGITS})")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"Malformed numeric value ({text[:40]})") from None


def _exact_integer(text: str) -> int:
    if len(text) > MAX_NUMBER_DIGITS:
        raise ValueError(f"Number value length ({len(text)}) exceeds the maximum allowed ({MAX_NUMBER_DIGITS})")
    return int(text)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"Non-standard token '{text}'")


_DECODER = json.JSONDecoder(parse_float=_exact_decimal, parse_int=_exact_integer, parse_constant=_refuse_constant)


def read_exact(data: bytes) -> object:
    """Read the first JSON value of `data` and ignore the rest; numbers with a fraction or exponent become Decimal.

    Raises:
        ValueError: the text is not JSON.
    """
    text = data.decode("utf-8-sig")
    start = _BLANKS.match(text)
    try:
        value, _ = _DECODER.raw_decode(text, start.end() if start else 0)
    except RecursionError:
        raise ValueError("Document nesting depth exceeds the maximum allowed") from None
    return value


def read_fast(data: bytes) -> object:
    """Read JSON with fractions as floats; text that only Jackson accepts is read by `read_exact`.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return read_exact(data)


def write_fast(value: object, default: Callable[[object], object] | None = None, option: int | None = None) -> bytes:
    """Write what orjson can write; half of a surrogate pair, which is no UTF-8, becomes its escape."""
    try:
        # What orjson returns keeps the 4 KiB that it was written in, and messages are kept for long.
        return memoryview(orjson.dumps(value, default, option)).tobytes()
    except orjson.JSONEncodeError:
        return _with_escapes(value, default, option)


def _with_escapes(value: object, default: Callable[[object], object] | None, option: int | None) -> bytes:
    match value:
        case str():
            return _quoted(value).encode()
        case Mapping():
            members = (
                _quoted(str(key)).encode() + b":" + write_fast(each, default, option) for key, each in value.items()
            )
            return b"{" + b",".join(members) + b"}"
        case Sequence() if not isinstance(value, bytes):
            return b"[" + b",".join(write_fast(each, default, option) for each in value) + b"]"
        case _:
            return orjson.dumps(value, default, option)


def _quoted(text: str) -> str:
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04X}", json.dumps(text, ensure_ascii=False))


def write_compact(value: object) -> str:
    """Write a value as compact JSON, its members in their order; BYTES as base64."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case dict():
            members = (f"{_quoted(key)}:{write_compact(item)}" for key, item in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(write_compact(item) for item in value) + "]"
        case float():
            return java_double(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return json.dumps(b64encode(value).decode("ascii"))
        case _:
            return str(value)
