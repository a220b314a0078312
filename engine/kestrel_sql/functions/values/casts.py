"""Converts Python values between SQL types (rules L4.6)."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.functions.values.equality import hash_map
from kestrel_sql.java import numbers
from kestrel_sql.java.base64_text import decode_base64
from kestrel_sql.java.jackson import clock_text, date_text, time_text, timestamp_text
from kestrel_sql.java.letters import lower
from kestrel_sql.java.time import iso, sql_text
from kestrel_sql.java.time.fixed_width import any_layout_of
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct
from kestrel_sql.types.time_units import DAY_MS, FIRST_DAY

T = TypeVar("T")

_TRUE = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes"})


def caster(source: SqlType | None, target: SqlType) -> Callable[..., object]:
    """Return the conversion of a value, which is never NULL, from `source` to `target`.

    It raises ValueError for a string that is no value of the target type, and ArithmeticError for a number that does
    not fit.
    """
    if source is None or source == target:
        return _unchanged
    match source, target:
        case Primitive(a), Primitive(b):
            return _PRIMITIVE[a, b]
        case Primitive(Base.DOUBLE), Decimal(precision):
            of_double = numbers.rounder(target)
            return lambda value: of_double(_with_digits(value, precision))
        case _, Decimal():
            rounded = _rounder(target)
            return lambda value: rounded(_to_decimal(value))
        case Decimal(), Primitive(Base.STRING):
            return "{:f}".format
        case Decimal(), Primitive(Base.DOUBLE):
            return float
        case Decimal(), Primitive():
            bits = 32 if target == t.INTEGER else 64
            return lambda value: numbers.wrap_integer(int(value), bits)
        case _:
            return _composite_caster(source, target)


def cast_columns(source: SqlType | None, target: SqlType) -> Callable[[object], object] | None:
    """Return the conversion of a whole column (see `ColumnBody`); None if there is none."""
    match source, target:
        case Primitive(a), Primitive(b):
            return _PRIMITIVE_COLUMNS.get((a, b))
        case Decimal(), Primitive(Base.DOUBLE):
            return _decimals_to_doubles
        case Decimal(_, scale), Primitive(Base.STRING):
            return lambda array: late.pc.cast(array, late.pa.string()) if scale <= late.types.PLAIN_SCALE else None
        case Primitive(Base.STRING), Decimal(precision, scale):
            return lambda array: _texts_to_decimals(array, precision, scale)
        case Decimal() | Primitive(Base.INTEGER | Base.BIGINT), Decimal(precision, scale):
            return lambda array: _to_decimals(array, precision, scale)
        case _:
            return None


_INT_TEXT, _LONG_TEXT, _REAL_TEXT = 9, 18, 300
"""So many characters of a number always fit."""


def _decimals_to_doubles(array: ArrowArray) -> ArrowArray | None:
    found = late.numbers.unscaled(array)
    # Both terms are exact then, so that the quotient is the nearest DOUBLE.
    if found is None or late.numbers.largest(found[0]) > 1 << 53:
        return None
    return late.numbers.array_of(found[0].astype(late.np.float64) / 10.0 ** found[1], array)


def _to_decimals(array: ArrowArray, precision: int, scale: int) -> ArrowArray | None:
    found = late.numbers.unscaled(array)
    values = None if found is None else late.numbers.rescaled(*found, scale)
    return None if values is None else late.numbers.decimals(values, precision, scale, array)


def _texts_to_decimals(array: ArrowArray, precision: int, scale: int) -> ArrowArray | None:
    if not late.texts.consists_of(array, "0123456789", _LONG_TEXT):
        return None
    values = late.numbers.rescaled(late.numbers.values_of(late.pc.cast(array, late.pa.int64())), 0, scale)
    return None if values is None else late.numbers.decimals(values, precision, scale, array)


def _numbers_of_texts(characters: str, most: int, kind: str) -> Callable[[object], object]:
    def cast(array: ArrowArray) -> ArrowArray | None:
        if not late.texts.consists_of(array, characters, most):
            return None
        return late.pc.cast(array, getattr(late.pa, kind)())

    return cast


def _to_kind(kind: str) -> Callable[[object], object]:
    return lambda array: late.pc.cast(array, getattr(late.pa, kind)())


def _doubles_of(array: ArrowArray) -> ArrowArray:
    return late.numbers.array_of(late.numbers.values_of(array).astype(late.np.float64), array)


def _wrapped(array: ArrowArray) -> ArrowArray:
    return late.numbers.array_of(late.numbers.values_of(array).astype(late.np.int32), array)


def _times_of(pattern: str, unit_ms: int, kind: str) -> Callable[[object], object]:
    layout = any_layout_of(pattern)

    def cast(array: ArrowArray) -> ArrowArray | None:
        millis = None if layout is None else late.times.read(layout.parts, array)
        return None if millis is None else late.pa.array(millis // unit_ms, getattr(late.pa, kind)())

    return cast


_PRIMITIVE_COLUMNS: Mapping[tuple[Base, Base], Callable[[Any], Any]] = {
    (Base.INTEGER, Base.BIGINT): _to_kind("int64"),
    (Base.INTEGER, Base.DOUBLE): _to_kind("float64"),
    (Base.INTEGER, Base.STRING): _to_kind("string"),
    (Base.BIGINT, Base.INTEGER): _wrapped,
    (Base.BIGINT, Base.DOUBLE): _doubles_of,
    (Base.BIGINT, Base.STRING): _to_kind("string"),
    (Base.BOOLEAN, Base.STRING): _to_kind("string"),
    (Base.STRING, Base.INTEGER): _numbers_of_texts("0123456789", _INT_TEXT, "int32"),
    (Base.STRING, Base.BIGINT): _numbers_of_texts("0123456789", _LONG_TEXT, "int64"),
    (Base.STRING, Base.DOUBLE): _numbers_of_texts("0123456789.", _REAL_TEXT, "float64"),
    (Base.STRING, Base.DATE): _times_of("yyyy-MM-dd", DAY_MS, "int32"),
    (Base.STRING, Base.TIMESTAMP): _times_of("yyyy-MM-dd'T'HH:mm:ss", 1, "int64"),
}


def _composite_caster(source: SqlType, target: SqlType) -> Callable[..., object]:
    match source, target:
        case _, Primitive(Base.STRING):
            return lambda value: java_text(value, source)
        case Array(item), Array(other):
            convert = unless_null(caster(item, other))
            return lambda items: [*map(convert, items)]
        case Map(key, item), Map(other_key, other):
            keys, values = unless_null(caster(key, other_key)), unless_null(caster(item, other))
            return lambda entries: hash_map({keys(k): values(v) for k, v in entries.items()})
        case Struct(), Struct(fields):
            types = {field.name: field.type for field in source.fields}
            casts = {field.name: unless_null(caster(types.get(field.name), field.type)) for field in fields}
            return lambda struct: {name: convert(struct.get(name)) for name, convert in casts.items()}
        case _:
            raise ValueError(f"Cast of {source} to {target} is not supported")


def unless_null(convert: Callable[..., object]) -> Callable[..., object]:
    """Return a conversion that leaves NULL as it is."""
    return lambda value: None if value is None else convert(value)


def java_text(value: Any, sql_type: SqlType | None) -> str:
    """Write a value as Java's `toString` does; NULL becomes `null`."""
    if value is None or isinstance(value, str):
        return "null" if value is None else value
    match sql_type:
        case Array(item):
            return f"[{', '.join(java_text(v, item) for v in value)}]"
        case Map(key, item):
            return "{" + ", ".join(f"{java_text(k, key)}={java_text(v, item)}" for k, v in value.items()) + "}"
        case Struct(fields):
            shown = (f"{f.name}={java_text(value[f.name], f.type)}" for f in fields if value.get(f.name) is not None)
            return "Struct{" + ",".join(shown) + "}"
        case Primitive(Base.TIME):
            return time_text(value % DAY_MS // 1000)
        case Primitive(Base.DATE):
            return sql_text.date_text(value)
        case Primitive(Base.TIMESTAMP):
            return sql_text.timestamp_text(value)
        case Primitive(Base.BYTES):
            return f"java.nio.HeapByteBuffer[pos=0 lim={len(value)} cap={len(value)}]"
        case Primitive(base):
            return str(_PRIMITIVE[base, Base.STRING](value))
        case _:
            return str(value)


def saturating_int(value: float, bits: int) -> int:
    """Drop the fraction of a DOUBLE as Java does: out-of-range values become the nearest integer, NaN becomes 0."""
    if math.isnan(value):
        return 0
    limit = 1 << (bits - 1)
    return limit - 1 if value >= limit else -limit if value <= -limit else int(value)


def _with_digits(value: float, precision: int) -> decimal.Decimal:
    """The exact value of a DOUBLE, rounded to as many digits as a DECIMAL has, in whatever place they stand."""
    return decimal.Context(prec=precision, rounding=decimal.ROUND_HALF_UP).create_decimal_from_float(value)


def _rounder(target: Decimal) -> Callable[[decimal.Decimal], decimal.Decimal]:
    """Round to the scale of a type; the result may have a digit more than it, as ksqlDB looks at the value before."""
    digits, step = target.precision - target.scale, decimal.Decimal(1).scaleb(-target.scale)

    def rounded(value: decimal.Decimal) -> decimal.Decimal:
        if value and value.adjusted() >= digits:
            raise ArithmeticError("Numeric field overflow")
        result = value.quantize(step, context=numbers.ROUNDING)
        return result or result.copy_abs()

    return rounded


def _to_decimal(value: str | float | decimal.Decimal) -> decimal.Decimal:
    match value:
        case decimal.Decimal():
            return value
        case str():
            return numbers.parse_decimal(value.strip(numbers.JAVA_BLANKS))
        case _:
            return decimal.Decimal(value)


def _to_double(value: str) -> float:
    real = numbers.parse_double(value)
    if not math.isfinite(real):
        raise ValueError(f"not a number: {value}")
    return real


def _to_bytes(value: str) -> bytes:
    return decode_base64(value.strip(numbers.JAVA_BLANKS))


def _stripped(parse: Callable[[str], int]) -> Callable[[str], int]:
    return lambda value: parse(value.strip(numbers.JAVA_BLANKS))


def _day(value: int) -> int:
    return max(sql_text.instant_of(value) // DAY_MS, FIRST_DAY)


def _unchanged(value: T) -> T:
    return value


_PRIMITIVE: Mapping[tuple[Base, Base], Callable[[Any], Any]] = {
    (Base.BOOLEAN, Base.STRING): lambda value: "true" if value else "false",
    (Base.INTEGER, Base.BIGINT): _unchanged,
    (Base.INTEGER, Base.DOUBLE): float,
    (Base.INTEGER, Base.STRING): str,
    (Base.BIGINT, Base.INTEGER): lambda value: numbers.wrap_integer(value, 32),
    (Base.BIGINT, Base.DOUBLE): float,
    (Base.BIGINT, Base.STRING): str,
    (Base.DOUBLE, Base.INTEGER): lambda value: saturating_int(value, 32),
    (Base.DOUBLE, Base.BIGINT): lambda value: saturating_int(value, 64),
    (Base.DOUBLE, Base.STRING): numbers.java_double,
    (Base.STRING, Base.BOOLEAN): lambda value: lower(value.strip(numbers.JAVA_BLANKS)) in _TRUE,
    (Base.STRING, Base.INTEGER): _stripped(numbers.parse_int),
    (Base.STRING, Base.BIGINT): _stripped(numbers.parse_long),
    (Base.STRING, Base.DOUBLE): _to_double,
    (Base.STRING, Base.BYTES): _to_bytes,
    (Base.STRING, Base.TIMESTAMP): _stripped(iso.parse_timestamp),
    (Base.STRING, Base.DATE): _stripped(iso.parse_date),
    (Base.STRING, Base.TIME): _stripped(iso.parse_time),
    (Base.TIMESTAMP, Base.STRING): timestamp_text,
    (Base.TIMESTAMP, Base.DATE): _day,
    (Base.TIMESTAMP, Base.TIME): lambda value: sql_text.instant_of(value) % DAY_MS,
    (Base.DATE, Base.STRING): date_text,
    (Base.DATE, Base.TIMESTAMP): lambda value: value * DAY_MS,
    (Base.TIME, Base.STRING): clock_text,
}
