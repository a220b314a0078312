"""Says which types convert to which: by CAST, implicitly in calls, and to a common type."""

from __future__ import annotations

from kestrel_sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
    is_numeric,
)

_CASTS: dict[SqlType, frozenset[SqlType]] = {
    BOOLEAN: frozenset({STRING}),
    INTEGER: frozenset({BIGINT, DOUBLE, STRING}),
    BIGINT: frozenset({INTEGER, DOUBLE, STRING}),
    DOUBLE: frozenset({INTEGER, BIGINT, STRING}),
    STRING: frozenset({BOOLEAN, INTEGER, BIGINT, DOUBLE, TIMESTAMP, DATE, TIME, BYTES}),
    TIMESTAMP: frozenset({STRING, DATE, TIME}),
    DATE: frozenset({STRING, TIMESTAMP}),
    TIME: frozenset({STRING}),
}

PARSED_FROM_STRING = frozenset({DATE, TIME, TIMESTAMP, BYTES})
"""The types that a STRING argument of a function converts to implicitly."""


def can_cast(source: SqlType, target: SqlType) -> bool:
    """Whether CAST is defined for the two types (rules L4.6)."""
    if source == target:
        return True
    match source, target:
        case Decimal(), _:
            return isinstance(target, Decimal) or target in (INTEGER, BIGINT, DOUBLE, STRING)
        case _, Decimal():
            return source in (INTEGER, BIGINT, DOUBLE, STRING)
        case Array(item), Array(other):
            return can_cast(item, other)
        case Map(key, value), Map(other_key, other_value):
            return can_cast(key, other_key) and can_cast(value, other_value)
        case Struct(fields), Struct():
            return all(can_cast(f.type, found.type) for f in fields if (found := target.field(f.name)) is not None)
        case Array() | Map() | Struct(), _:
            return target == STRING
        case _:
            return target in _CASTS.get(source, ())


def decimal_of(sql_type: SqlType) -> Decimal:
    """Return the DECIMAL that holds every value of an INTEGER, BIGINT or DECIMAL type.

    Raises:
        ValueError: any other type.
    """
    match sql_type:
        case Decimal():
            return sql_type
        case _ if sql_type == INTEGER:
            return Decimal(10, 0)
        case _ if sql_type == BIGINT:
            return Decimal(19, 0)
        case _:
            raise ValueError(f"{sql_type} is not an exact numeric type")


def numeric_rank(sql_type: SqlType) -> int:
    """Return the rank of a numeric type, from 0, in INTEGER < BIGINT < DECIMAL < DOUBLE."""
    if isinstance(sql_type, Decimal):
        return 2
    return 0 if sql_type == INTEGER else 1 if sql_type == BIGINT else 3


def can_implicitly_cast(source: SqlType, target: SqlType) -> bool:
    """Whether a call converts `source` to `target` without a CAST.

    Numbers widen, and STRING converts to the date, time and bytes types. A DECIMAL converts only to a DECIMAL that
    holds all its values (rules N9).
    """
    if source == target:
        return True
    if isinstance(source, Decimal) and isinstance(target, Decimal):
        return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
    if is_numeric(source) and is_numeric(target):
        return numeric_rank(source) <= numeric_rank(target)
    return source == STRING and target in PARSED_FROM_STRING


def wider_decimal(left: Decimal, right: Decimal) -> Decimal:
    """Return the smallest DECIMAL that holds the values of both."""
    scale = max(left.scale, right.scale)
    return Decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def wider_number(left: SqlType, right: SqlType) -> SqlType:
    """Return the smallest numeric type that holds the values of both numeric types."""
    if DOUBLE in (left, right):
        return DOUBLE
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return wider_decimal(decimal_of(left), decimal_of(right))
    return left if numeric_rank(left) >= numeric_rank(right) else right


def lossless_type(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the type that a CAST gives values of both types without losing any of them; None if there is none.

    Between DECIMAL and DOUBLE it is DOUBLE, as in arithmetic.
    """
    if is_numeric(left) and is_numeric(right):
        return wider_number(left, right)
    if {left, right} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return STRING if can_cast(left, STRING) and can_cast(right, STRING) else None


def can_be_equal(left: SqlType | None, right: SqlType | None) -> bool:
    """Whether `equals` of Java can be true for values of two types: their classes, scales and fields are the same."""
    match left, right:
        case Decimal(), Decimal():
            return left.scale == right.scale
        case Array(item), Array(other):
            return can_be_equal(item, other)
        case Map(key, item), Map(other_key, other):
            return can_be_equal(key, other_key) and can_be_equal(item, other)
        case _:
            return left is None or right is None or left == right


def is_container(sql_type: SqlType | None) -> bool:
    """Whether a type is an ARRAY, MAP or STRUCT."""
    return isinstance(sql_type, Array | Map | Struct)


def base_name(sql_type: SqlType | None) -> str:
    """Return the type without its parameters, as several messages name it; NULL for None."""
    match sql_type:
        case None:
            return "NULL"
        case Decimal():
            return "DECIMAL"
        case Array():
            return "ARRAY"
        case Map():
            return "MAP"
        case Struct():
            return "STRUCT"
        case _:
            return str(sql_type)
