"""Strings as Java has them: sequences of UTF-16 units, of which a character beyond U+FFFF has two.

A Python string of units has a surrogate for each half of such a character, so that its length, its positions and its
order are those of Java. Values are whole: they have surrogates only where the other half is missing (rule U4.9).
"""

from __future__ import annotations

import re

_HALF = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def units(text: str) -> str:
    """Return the UTF-16 units of a string."""
    return text if text.isascii() else _BEYOND.sub(_halves, text)


def _halves(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def whole(text: str) -> str:
    """Join the halves of characters; a half without the other one stays."""
    if text.isascii():
        return text
    try:
        text.encode("utf-16-be")
    except UnicodeEncodeError:
        # The handler `surrogatepass` holds Python's lock for seconds where there are millions of halves.
        return _PAIR.sub(_joined, text)
    return text


def _joined(match: re.Match[str]) -> str:
    pair = match[0]
    return chr(0x10000 + ((ord(pair[0]) - 0xD800) << 10) + ord(pair[1]) - 0xDC00)


def encodable(text: str) -> str:
    """Replace each half of a character by `?`, as Java does where it writes UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def without_halves(value: object) -> object:
    """Do `encodable` for each string inside of a value."""
    match value:
        case str():
            return encodable(value)
        case list():
            return [without_halves(item) for item in value]
        case dict():
            return {without_halves(key): without_halves(item) for key, item in value.items()}
        case _:
            return value


def decode_utf8(data: bytes) -> str:
    """Read UTF-8 as `new String(data, UTF_8)` does: what is malformed becomes U+FFFD, and half a pair one of them."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _HALF.sub("\ufffd".encode(), data).decode("utf-8", "replace")
