"""The Spark and Arrow types of SQL types (`docs/architecture.md` has a table)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import assert_never

import pyarrow as pa
from sqlglot import exp

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, NamedType, Primitive, SqlType, Struct, quote

MAX_PRECISION = 38
"""The widest DECIMAL that Spark can hold."""

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
    match sql_type:
        case Decimal(precision):
            return precision > MAX_PRECISION
        case Array(item):
            return is_wide(item)
        case Map(key, value):
            return is_wide(key) or is_wide(value)
        case Struct(fields):
            return any(is_wide(field.type) for field in fields)
        case _:
            return False


def to_spark(sql_type: SqlType | None) -> str:
    """Return a type as Spark SQL text; an untyped NULL is a STRING.

    Raises:
        UnsupportedError: a DECIMAL has more than 38 digits.
    """
    match sql_type:
        case None:
            return "STRING"
        case Primitive(base):
            return _SPARK[base]
        case Decimal(precision, scale):
            if precision > MAX_PRECISION:
                raise UnsupportedError(
                    f"{sql_type} has too many digits: Spark holds no DECIMAL of more than {MAX_PRECISION}",
                    hint=f"cast to a DECIMAL of at most {MAX_PRECISION} digits, to DOUBLE or to STRING",
                )
            return f"DECIMAL({precision},{scale})"
        case Array(item):
            return f"ARRAY<{to_spark(item)}>"
        case Map(key, value):
            return f"MAP<{to_spark(key)},{to_spark(value)}>"
        case Struct(fields):
            return f"STRUCT<{','.join(f'{name(f.name)}:{to_spark(f.type)}' for f in fields)}>"
        case NamedType(unresolved):
            raise UnsupportedError(f"type {unresolved} was never resolved")
        case _:
            assert_never(sql_type)


def schema_text(columns: Mapping[str, str]) -> str:
    """Return columns and their Spark types as a Spark schema."""
    return ", ".join(f"{name(column)} {kind}" for column, kind in columns.items())


def struct_of(columns: Iterable[Column]) -> str:
    """Return the Spark struct type of a row of `columns`.

    Raises:
        UnsupportedError: a column holds a DECIMAL of more than 38 digits; names it.
    """
    return f"STRUCT<{','.join(f'{name(c.name)}:{_column_type(c)}' for c in columns)}>"


def _column_type(column: Column) -> str:
    try:
        return to_spark(column.type)
    except UnsupportedError as error:
        raise UnsupportedError(f"the column {quote(column.name)}: {error.message}", hint=error.hint) from error


@lru_cache(maxsize=4096)
def to_data_type(sql_type: SqlType | None) -> exp.DataType:
    """Return a type as a sqlglot node, which is shared and must not be changed."""
    return exp.DataType.build(to_spark(sql_type), dialect="spark", udt=False)


def to_arrow(sql_type: SqlType | None) -> pa.DataType:
    """Return a type as an Arrow type."""
    match sql_type:
        case None:
            return pa.string()
        case Primitive(base):
            return _ARROW[base]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(item):
            return pa.list_(to_arrow(item))
        case Map(key, value):
            return pa.map_(to_arrow(key), to_arrow(value))
        case Struct(fields):
            return pa.struct([pa.field(f.name, to_arrow(f.type)) for f in fields])
        case NamedType(unresolved):
            raise UnsupportedError(f"type {unresolved} was never resolved")
        case _:
            assert_never(sql_type)


def arrow_struct(columns: Iterable[Column]) -> pa.DataType:
    """Return the Arrow struct type of a row of `columns`."""
    return pa.struct([pa.field(c.name, to_arrow(c.type)) for c in columns])
