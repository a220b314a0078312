"""DECIMALs whose values have a scale of their own, at most that of their type (rule U4.7).

GREATEST and LEAST return the argument that they choose, as it came. Only a serde brings it to the scale of the type.
"""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import Array, Decimal, Field, Map, SqlType, Struct


def has_own_scales(sql_type: SqlType | None) -> bool:
    """Whether a type is or contains a DECIMAL whose values have scales of their own."""
    match sql_type:
        case Decimal():
            return sql_type.own_scales
        case Array(item):
            return has_own_scales(item)
        case Map(key, value):
            return has_own_scales(key) or has_own_scales(value)
        case Struct(fields):
            return any(has_own_scales(field.type) for field in fields)
        case _:
            return False


def with_own_scales(sql_type: SqlType, own: bool) -> SqlType:
    """Return a type whose DECIMALs, at any depth, all have values with scales of their own, or none has."""
    match sql_type:
        case Decimal():
            return replace(sql_type, own_scales=own)
        case Array(item):
            return Array(with_own_scales(item, own))
        case Map(key, value):
            return Map(with_own_scales(key, own), with_own_scales(value, own))
        case Struct(fields):
            return Struct(tuple(Field(field.name, with_own_scales(field.type, own)) for field in fields))
        case _:
            return sql_type


def at_declared_scales(schema: Schema) -> Schema:
    """Return a schema whose values all have the scale of their type."""
    return Schema(tuple(replace(column, type=with_own_scales(column.type, False)) for column in schema.columns))
