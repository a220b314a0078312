"""Functions that convert strings to and from bytes, characters and UUIDs."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable

from kestrel_sql.functions.declaration import scalar
from kestrel_sql.java.base64_text import decode_base64, decode_base64_digits
from kestrel_sql.java.letters import lower, upper
from kestrel_sql.java.utf16 import decode_utf8, whole


def _from_hex(value: str) -> bytes:
    """Read `0x…` (an odd first digit is half a byte), `X'…'` or plain digits."""
    quoted = re.fullmatch(r"[Xx]'(.*)'", value, re.DOTALL)
    digits = quoted.group(1) if quoted else value[2:] if value[:2] == "0x" else value
    if value[:2] == "0x" and len(digits) % 2:
        digits = "0" + digits
    if len(digits) % 2 or re.fullmatch("[0-9A-Fa-f]*", digits) is None:
        raise ValueError(f"not hexadecimal: {value}")
    return bytes.fromhex(digits)


def _plain_hex(value: str) -> bytes:
    if len(value) % 2 or re.fullmatch("[0-9A-Fa-f]*", value) is None:
        raise ValueError(f"not hexadecimal: {value}")
    return bytes.fromhex(value)


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


_DECODERS: dict[str, Callable[[bytes], str]] = {
    "hex": lambda value: upper(value.hex()),
    "utf8": decode_utf8,
    "ascii": lambda value: value.decode("ascii", "replace"),
    "base64": _to_base64,
}
_ENCODERS: dict[str, Callable[[str], bytes]] = {
    "hex": _plain_hex,
    "utf8": lambda value: value.encode("utf-8", "replace"),
    "ascii": lambda value: value.encode("ascii", "replace"),
    "base64": decode_base64,
}
_READERS = {**_ENCODERS, "hex": _from_hex, "base64": decode_base64_digits}
"""ENCODE reads more than TO_BYTES does."""


def _coding(name: str) -> str:
    if lower(name) not in _DECODERS:
        raise ValueError(f"Unknown encoding type '{name}'. Supported formats are 'hex', 'utf8', 'ascii', and 'base64'.")
    return lower(name)


@scalar("(str STRING, inputEncoding STRING, outputEncoding STRING) -> STRING", display_name="encode")
def encode(value: str, source: str, target: str) -> str:
    """Convert a string from `inputEncoding` to `outputEncoding`; both are hex, utf8, ascii or base64, and must differ.

    Example: ENCODE('0x61', 'hex', 'utf8') -> 'a'
    """
    before, after = _coding(source), _coding(target)
    if before == after:
        raise ValueError(f"The input and output encodings must differ, but both are '{source}'")
    data = _READERS[before](value)
    return data.hex() if after == "hex" else _DECODERS[after](data)


@scalar("(value BYTES, encoding STRING) -> STRING", display_name="from_bytes")
def from_bytes(value: bytes, coding: str) -> str:
    """Write bytes as a string in hex (upper case), utf8, ascii or base64.

    Example: FROM_BYTES(TO_BYTES('abc', 'utf8'), 'hex') -> '616263'
    """
    return _DECODERS[_coding(coding)](value)


@scalar("(value STRING, encoding STRING) -> BYTES", display_name="to_bytes")
def to_bytes(value: str, coding: str) -> bytes:
    """Read bytes from a string in hex, utf8, ascii or base64.

    Example: FROM_BYTES(TO_BYTES('YWJj', 'base64'), 'utf8') -> 'abc'
    """
    return _ENCODERS[_coding(coding)](value)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u+\+?([0-9A-Fa-f]{4})|([0-7]{1,3})|(.))", re.DOTALL)


@scalar("(decimalCode INT) -> STRING", name="CHR", display_name="Chr")
def chr_code(code: int) -> str | None:
    """Return the character with a Unicode code point; NULL if there is none.

    Example: CHR(75) -> 'K'
    """
    return chr(code) if 0 <= code <= 0x10FFFF else None


@scalar("(utf16Code STRING) -> STRING", name="CHR", display_name="Chr")
def chr_escaped(escaped: str) -> str | None:
    r"""Replace Java escapes such as `\u004b` by their characters; NULL unless the string starts with such an escape.

    Example: CHR('\u004b') -> 'K'
    """
    if len(escaped) < 6 or not escaped.startswith("\\u"):
        return None

    def character(match: re.Match[str]) -> str:
        unit, octal, other = match.groups()
        if unit is not None:
            return chr(int(unit, 16))
        return chr(int(octal, 8)) if octal is not None else _ESCAPES.get(other, other)

    return whole(_ESCAPE.sub(character, escaped))


@scalar("() -> STRING", name="UUID", deterministic=False)
def uuid_random() -> str:
    """Return a random UUID, a new one for each row.

    Example: LEN(UUID()) -> 36
    """
    return str(uuid.uuid4())


@scalar("(bytes BYTES) -> STRING", name="UUID")
def uuid_of(value: bytes) -> str | None:
    """Return the UUID made of 16 bytes; NULL for any other number of bytes.

    Example: UUID(TO_BYTES('00112233445566778899aabbccddeeff', 'hex')) -> '00112233-4455-6677-8899-aabbccddeeff'
    """
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else None
