"""The Spark types of SQL types, as text; values that Spark has no type for are carried (`kestrel_sql.arrow.types`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from kestrel_sql.arrow.types import CARRIER, DIGITS
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.types.carried import is_wide
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
)

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


def name(text: str) -> str:
    """Quote an identifier for Spark."""
    return "`" + text.replace("`", "``") + "`"


def to_spark(sql_type: SqlType | None) -> str:
    """Return a type as Spark SQL text; an untyped NULL is a STRING."""
    match sql_type:
        case None:
            return "STRING"
        case Primitive(base):
            return _SPARK[base]
        case Decimal(precision, scale):
            return _WIDE_SPARK if is_wide(sql_type) else f"DECIMAL({precision},{scale})"
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
    return to_spark(Struct(tuple(Field(column.name, column.type) for column in columns)))
