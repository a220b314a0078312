"""Says which types convert to which: by CAST, implicitly in calls, and to a common type."""

from __future__ import annotations

from kestrel_sql.types import sql_types as t

_CASTS: dict[t.SqlType, frozenset[t.SqlType]] = {
    t.BOOLEAN: frozenset({t.STRING}),
    t.INTEGER: frozenset({t.BIGINT, t.DOUBLE, t.STRING}),
    t.BIGINT: frozenset({t.INTEGER, t.DOUBLE, t.STRING}),
    t.DOUBLE: frozenset({t.INTEGER, t.BIGINT, t.STRING}),
    t.STRING: frozenset({t.BOOLEAN, t.INTEGER, t.BIGINT, t.DOUBLE, t.TIMESTAMP, t.DATE, t.TIME, t.BYTES}),
    t.TIMESTAMP: frozenset({t.STRING, t.DATE, t.TIME}),
    t.DATE: frozenset({t.STRING, t.TIMESTAMP}),
    t.TIME: frozenset({t.STRING}),
}

PARSED_FROM_STRING = frozenset({t.DATE, t.TIME, t.TIMESTAMP, t.BYTES})
"""The types that a STRING argument of a function converts to implicitly."""


def can_cast(source: t.SqlType, target: t.SqlType) -> bool:
    """Whether CAST is defined for the two types (rules L4.6)."""
    if source == target:
        return True
    match source, target:
        case t.Decimal(), _:
            return isinstance(target, t.Decimal) or target in (t.INTEGER, t.BIGINT, t.DOUBLE, t.STRING)
        case _, t.Decimal():
            return source in (t.INTEGER, t.BIGINT, t.DOUBLE, t.STRING)
        case t.Array(item), t.Array(other):
            return can_cast(item, other)
        case t.Map(key, value), t.Map(other_key, other_value):
            return can_cast(key, other_key) and can_cast(value, other_value)
        case t.Struct(fields), t.Struct():
            return all(can_cast(f.type, found.type) for f in fields if (found := target.field(f.name)) is not None)
        case t.Array() | t.Map() | t.Struct(), _:
            return target == t.STRING
        case _:
            return target in _CASTS.get(source, ())


def decimal_of(sql_type: t.SqlType) -> t.Decimal:
    """Return the DECIMAL that holds every value of an INTEGER, BIGINT or DECIMAL type.

    Raises:
        ValueError: any other type.
    """
    match sql_type:
        case t.Decimal():
            return sql_type
        case _ if sql_type == t.INTEGER:
            return t.Decimal(10, 0)
        case _ if sql_type == t.BIGINT:
            return t.Decimal(19, 0)
        case _:
            raise ValueError(f"{sql_type} is not an exact numeric type")


def numeric_rank(sql_type: t.SqlType) -> int:
    """Return the rank of a numeric type, from 0, in INTEGER < BIGINT < DECIMAL < DOUBLE."""
    if isinstance(sql_type, t.Decimal):
        return 2
    return 0 if sql_type == t.INTEGER else 1 if sql_type == t.BIGINT else 3


def can_implicitly_cast(source: t.SqlType, target: t.SqlType) -> bool:
    """Whether a call converts `source` to `target` without a CAST.

    Numbers widen, and STRING converts to the date, time and bytes types. A DECIMAL converts only to a DECIMAL that
    holds all its values (rules N9).
    """
    if source == target:
        return True
    if isinstance(source, t.Decimal) and isinstance(target, t.Decimal):
        return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
    if t.is_numeric(source) and t.is_numeric(target):
        return numeric_rank(source) <= numeric_rank(target)
    return source == t.STRING and target in PARSED_FROM_STRING


def wider_decimal(left: t.Decimal, right: t.Decimal) -> t.Decimal:
    """Return the smallest DECIMAL that holds the values of both."""
    scale = max(left.scale, right.scale)
    return t.Decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def wider_number(left: t.SqlType, right: t.SqlType) -> t.SqlType:
    """Return the smallest numeric type that holds the values of both numeric types."""
    if t.DOUBLE in (left, right):
        return t.DOUBLE
    if isinstance(left, t.Decimal) or isinstance(right, t.Decimal):
        return wider_decimal(decimal_of(left), decimal_of(right))
    return left if numeric_rank(left) >= numeric_rank(right) else right


def lossless_type(left: t.SqlType, right: t.SqlType) -> t.SqlType | None:
    """Return the type that a CAST gives values of both types without losing any of them; None if there is none.

    Between DECIMAL and DOUBLE it is DOUBLE, as in arithmetic.
    """
    if t.is_numeric(left) and t.is_numeric(right):
        return wider_number(left, right)
    if {left, right} == {t.DATE, t.TIMESTAMP}:
        return t.TIMESTAMP
    return t.STRING if can_cast(left, t.STRING) and can_cast(right, t.STRING) else None


def can_be_equal(left: t.SqlType | None, right: t.SqlType | None) -> bool:
    """Whether `equals` of Java can be true for values of two types: their classes, scales and fields are the same."""
    match left, right:
        case t.Decimal(), t.Decimal():
            return left.scale == right.scale
        case t.Array(item), t.Array(other):
            return can_be_equal(item, other)
        case t.Map(key, item), t.Map(other_key, other):
            return can_be_equal(key, other_key) and can_be_equal(item, other)
        case _:
            return left is None or right is None or left == right


def is_container(sql_type: t.SqlType | None) -> bool:
    """Whether a type is an ARRAY, MAP or STRUCT."""
    return isinstance(sql_type, t.Array | t.Map | t.Struct)


def base_name(sql_type: t.SqlType | None) -> str:
    """Return the type without its parameters, as several messages name it; NULL for None."""
    if sql_type is None:
        return "NULL"
    return str(sql_type) if isinstance(sql_type, t.Primitive | t.NamedType) else type(sql_type).__name__.upper()
