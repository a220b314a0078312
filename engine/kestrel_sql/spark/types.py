"""The Spark and Arrow types of SQL types (`docs/architecture.md` has a table).

Spark has no DECIMAL of more than 38 digits or with a scale for each value, and no STRUCT without fields. Their values
are carried in structs whose first field, of a type that no SQL type has, is always NULL (docs/adr/0038); that of a
DECIMAL also has its plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import pyarrow as pa

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import (
    Array,
    Base,
    Decimal,
    Field,
    Map,
    NamedType,
    Primitive,
    SqlType,
    Struct,
    contains,
)

MAX_PRECISION = 38
"""The widest DECIMAL that Spark can hold."""

CARRIER, DIGITS = "_", "digits"
"""The fields of carried values, which no schema, message or answer has."""
_EMPTY = pa.struct([pa.field(CARRIER, pa.int8())])
_WIDE = pa.struct([pa.field(CARRIER, pa.int8()), pa.field(DIGITS, pa.string())])

_EMPTY_SPARK = f"STRUCT<`{CARRIER}`:TINYINT>"
_WIDE_SPARK = f"STRUCT<`{CARRIER}`:TINYINT,`{DIGITS}`:STRING>"

_SPARK = {
    Base.BOOLEAN: "BOOLEAN",
    Base.INTEGER: "INT",
    Base.BIGINT: "BIGINT",
    Base.DOUBLE: "DOUBLE",
    Base.STRING: "STRING",
    Base.BYTES: "BINARY",
    Base.TIME: "INT",
    Base.DATE: "INT",
    Base.TIMESTAMP: "BIGINT",
}

_ARROW = {
    Base.BOOLEAN: pa.bool_(),
    Base.INTEGER: pa.int32(),
    Base.BIGINT: pa.int64(),
    Base.DOUBLE: pa.float64(),
    Base.STRING: pa.string(),
    Base.BYTES: pa.binary(),
    Base.TIME: pa.int32(),
    Base.DATE: pa.int32(),
    Base.TIMESTAMP: pa.int64(),
}


def name(text: str) -> str:
    """Quote an identifier for Spark."""
    return "`" + text.replace("`", "``") + "`"


def is_wide(sql_type: SqlType | None) -> bool:
    """Whether a type is or contains a DECIMAL that no type of Spark holds."""
    return contains(sql_type, lambda part: isinstance(part, Decimal) and _is_wide(part))


def _is_wide(size: Decimal) -> bool:
    return size.precision > MAX_PRECISION or size.own_scales


def is_carried(sql_type: SqlType) -> bool:
    """Whether a type is or contains one whose values are carried."""
    return is_wide(sql_type) or contains(sql_type, lambda part: part == Struct(()))


def to_spark(sql_type: SqlType | None) -> str:
    """Return a type as Spark SQL text; an untyped NULL is a STRING."""
    match sql_type:
        case None:
            return "STRING"
        case Primitive(base):
            return _SPARK[base]
        case Decimal(precision, scale):
            return _WIDE_SPARK if _is_wide(sql_type) else f"DECIMAL({precision},{scale})"
        case Array(item):
            return f"ARRAY<{to_spark(item)}>"
        case Map(key, value):
            return f"MAP<{to_spark(key)},{to_spark(value)}>"
        case Struct(()):
            return _EMPTY_SPARK
        case Struct(fields):
            return f"STRUCT<{','.join(f'{name(f.name)}:{to_spark(f.type)}' for f in fields)}>"
        case NamedType(unresolved):
            raise UnsupportedError(f"type {unresolved} was never resolved")
        case _:
            assert_never(sql_type)


def struct_of(columns: Iterable[Column]) -> str:
    """Return the Spark struct type of a row of `columns`."""
    return to_spark(_row(columns))


def to_arrow(sql_type: SqlType | None) -> pa.DataType:
    """Return a type as an Arrow type."""
    match sql_type:
        case None:
            return pa.string()
        case Primitive(base):
            return _ARROW[base]
        case Decimal(precision, scale):
            return _WIDE if _is_wide(sql_type) else pa.decimal128(precision, scale)
        case Array(item):
            return pa.list_(to_arrow(item))
        case Map(key, value):
            return pa.map_(to_arrow(key), to_arrow(value))
        case Struct(()):
            return _EMPTY
        case Struct(fields):
            return pa.struct([pa.field(f.name, to_arrow(f.type)) for f in fields])
        case NamedType(unresolved):
            raise UnsupportedError(f"type {unresolved} was never resolved")
        case _:
            assert_never(sql_type)


def carries(kind: pa.DataType) -> bool:
    """Whether an Arrow type is that of carried values."""
    return kind in (_EMPTY, _WIDE)


def arrow_struct(columns: Iterable[Column]) -> pa.DataType:
    """Return the Arrow struct type of a row of `columns`."""
    return to_arrow(_row(columns))


def _row(columns: Iterable[Column]) -> Struct:
    return Struct(tuple(Field(column.name, column.type) for column in columns))
