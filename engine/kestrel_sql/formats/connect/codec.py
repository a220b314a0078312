"""The codec of one schema: its Connect form, and conversions between bytes and Connect values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kestrel_sql.formats.connect.schema import ConnectSchema


@dataclass(frozen=True, slots=True)
class SchemaCodec:
    """One schema with functions to read and write bodies (the bytes after magic byte and schema id)."""

    schema: ConnectSchema
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


OpenCodec = Callable[[str, Mapping[str, str], str | None], SchemaCodec]
"""Creates a codec from a schema text, the texts it imports by name, and the full name of the definition to use."""
