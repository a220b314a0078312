"""Kafka Connect's schema model, which links AVRO, JSON_SR and PROTOBUF to SQL types.

Values: BOOLEAN bool; integers int; floats float; STRING str; BYTES bytes; DECIMAL `decimal.Decimal`; DATE int (days);
TIME int (ms of the day); TIMESTAMP int (ms); ARRAY list; MAP dict; STRUCT dict from field name to value.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import FormatError


class Kind(Enum):
    """The kinds of Connect schemas, including logical types; the value is the name in messages."""

    BOOLEAN = "BOOLEAN"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    STRING = "STRING"
    BYTES = "BYTES"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


INTEGERS = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64})
FLOATS = frozenset({Kind.FLOAT32, Kind.FLOAT64})
MAX_DEPTH = 64
"""The maximal nesting depth of a schema; deeper ones, such as recursive ones, are rejected."""

MAX_PARTS = 20_000
"""The maximal number of parts of a schema after its references are resolved; a few lines can expand to billions."""


class Missing(Enum):
    """Marks a field without a default; None is a possible default."""

    MISSING = "MISSING"


class ConnectSchema(msgspec.Struct, frozen=True):
    """A schema; `item` is the item of an ARRAY or value of a MAP, `key` the key of a MAP, `fields` are for STRUCT."""

    kind: Kind
    optional: bool = False
    default: Any = Missing.MISSING
    precision: int = 0
    scale: int = 0
    key: ConnectSchema | None = None
    item: ConnectSchema | None = None
    fields: tuple[ConnectField, ...] = ()

    @property
    def only_item(self) -> ConnectSchema:
        """The item of an ARRAY or the value of a MAP."""
        if self.item is None:
            raise FormatError(f"{self.kind.value} without item schema")
        return self.item

    def as_optional(self) -> ConnectSchema:
        """Return the same schema with null allowed."""
        return self if self.optional else replace(self, optional=True)


class ConnectField(msgspec.Struct, frozen=True):
    """A field of a STRUCT."""

    name: str
    schema: ConnectSchema


def simple(kind: Kind) -> ConnectSchema:
    """Return a required schema without parameters."""
    return ConnectSchema(kind)


def struct_of(fields: Iterable[tuple[str, ConnectSchema]]) -> ConnectSchema:
    """Return a required STRUCT."""
    return ConnectSchema(Kind.STRUCT, fields=tuple(ConnectField(name, schema) for name, schema in fields))
