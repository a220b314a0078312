"""The codec of one schema: its Connect form, and conversions between bytes and Connect values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kestrel_sql.formats.connect.schema import ConnectSchema
from kestrel_sql.java.utf16 import without_halves


class SchemaCodec(msgspec.Struct, frozen=True):
    """One schema with functions to read and write bodies (the bytes after magic byte and schema id)."""

    schema: ConnectSchema
    read: Callable[[bytes], Any]
    write: Callable[[object], bytes]


def replacing_halves(write: Callable[[object], bytes]) -> Callable[[object], bytes]:
    """Let `write` write `?` for half of a surrogate pair, which UTF-8 has not, as Java does."""

    def write_utf8(value: object) -> bytes:
        try:
            return write(value)
        except UnicodeEncodeError:
            return write(without_halves(value))

    return write_utf8


OpenCodec = Callable[[str, Mapping[str, str], str | None], SchemaCodec]
"""Creates a codec from a schema text, the texts it imports by name, and the full name of the definition to use."""
