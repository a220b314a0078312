"""DECIMALs whose values have a size of their own (rules U4.7, U4.8).

GREATEST and LEAST return the argument that they choose, as it came. CEIL, FLOOR and ROUND may add a digit before the
point. Only a serde brings a value to the size of the type.
"""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import Decimal, SqlType, contains, with_leaves


def has_own_scales(sql_type: SqlType | None) -> bool:
    """Whether a type is or contains a DECIMAL whose values have scales of their own."""
    return contains(sql_type, lambda part: isinstance(part, Decimal) and part.own_scales)


def with_own_scales(sql_type: SqlType, own: bool) -> SqlType:
    """Return a type whose DECIMALs, at any depth, all have values with scales of their own, or none has."""
    return with_leaves(sql_type, lambda leaf: replace(leaf, own_scales=own) if isinstance(leaf, Decimal) else leaf)


def at_declared_scales(schema: Schema) -> Schema:
    """Return a schema whose values all have the scale of their type."""
    return Schema(tuple(replace(column, type=with_own_scales(column.type, False)) for column in schema.columns))
