"""What a schema language gives for one schema: its Connect form, and functions between bytes and Connect values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kestrel_sql.formats.connect.schema import ConnectSchema


@dataclass(frozen=True, slots=True)
class Wire:
    """One schema, ready to read and write bodies (the bytes after magic byte and schema id)."""

    schema: ConnectSchema
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


OpenWire = Callable[[str, Mapping[str, str], str | None], Wire]
"""Make the Wire of a schema text, the texts it imports by name, and the full name that selects one of several definitions."""
