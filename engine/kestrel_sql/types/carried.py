"""Types whose values no type of Arrow and Spark holds, so that they are carried in structs (docs/adr/0038)."""

from __future__ import annotations

from kestrel_sql.types.sql_types import Decimal, SqlType, Struct, contains

MAX_PRECISION = 38
"""The widest DECIMAL that Spark can hold."""


def is_wide(sql_type: SqlType | None) -> bool:
    """Whether a type is or contains a DECIMAL that no type of Spark holds."""
    return contains(
        sql_type,
        lambda part: isinstance(part, Decimal) and (part.precision > MAX_PRECISION or part.own_scales),
    )


def is_carried(sql_type: SqlType | None) -> bool:
    """Whether a type is or contains one whose values are carried."""
    return is_wide(sql_type) or contains(sql_type, lambda part: part == Struct(()))
