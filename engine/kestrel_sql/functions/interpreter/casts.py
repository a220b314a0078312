"""Converts Python values between SQL types (rules L4.6), as `kestrel_sql.spark.compile.casts` does in Spark.

Converters never get NULL, and raise ValueError or ArithmeticError for a value they cannot convert.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.java.jackson import date_text, time_text
from kestrel_sql.java.numbers import java_double, wrap_integer
from kestrel_sql.java.time.fields import to_days
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import decimal_of
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct
from kestrel_sql.types.time_units import DAY_MS

EXACT = decimal.Context(prec=1000, rounding=decimal.ROUND_HALF_UP)

_BLANKS = " "
_INTEGER = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUE = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes"})
_ZONE = re.compile(r"(Z|[+-]\d{2}:?\d{2})$", re.ASCII)
_INSTANT = re.compile(r"(\d{4})-(\d{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{3})", re.ASCII)
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?", re.ASCII)


def cast_value(value: Any, source: SqlType | None, target: SqlType) -> Any:
    """Convert a value of type `source` to `target`; NULL stays NULL.

    Raises:
        ValueError: a string is not a value of the target type.
        ArithmeticError: a number does not fit.
    """
    if value is None or source is None or source == target:
        return value
    match source, target:
        case Primitive(a), Primitive(b):
            return _PRIMITIVE[a, b](value)
        case _, Decimal():
            return fit_decimal(_to_decimal(value), target)
        case Decimal(), Primitive(Base.STRING):
            return java_text(value, source)
        case Decimal(), Primitive(Base.DOUBLE):
            return float(value)
        case Decimal(), Primitive():
            return wrap_integer(int(value), 32 if target == t.INTEGER else 64)
        case _:
            return _cast_composite(value, source, target)


def _cast_composite(value: Any, source: SqlType, target: SqlType) -> Any:
    match source, target:
        case _, Primitive(Base.STRING):
            return java_text(value, source)
        case Array(item), Array(other):
            return [cast_value(v, item, other) for v in value]
        case Map(key, item), Map(other_key, other):
            return {cast_value(k, key, other_key): cast_value(v, item, other) for k, v in value.items()}
        case Struct(), Struct(fields):
            source_types = {field.name: field.type for field in source.fields}
            return {f.name: cast_value(value.get(f.name), source_types.get(f.name), f.type) for f in fields}
        case _:
            raise ValueError(f"Cast of {source} to {target} is not supported")


def java_text(value: Any, sql_type: SqlType) -> str:
    """Write a value as Java's `toString` does; NULL becomes `null`."""
    if value is None:
        return "null"
    match sql_type:
        case Decimal():
            return f"{value:f}"
        case Array(item):
            return f"[{', '.join(java_text(v, item) for v in value)}]"
        case Map(key, item):
            return "{" + ", ".join(f"{java_text(k, key)}={java_text(v, item)}" for k, v in value.items()) + "}"
        case Struct(fields):
            # Leave out NULL fields, as Spark does.
            shown = (f"{f.name}={java_text(value[f.name], f.type)}" for f in fields if value.get(f.name) is not None)
            return "Struct{" + ",".join(shown) + "}"
        case Primitive(Base.BYTES):
            return base64.b64encode(value).decode("ascii")
        case Primitive(base) if base is not Base.STRING:
            return str(_PRIMITIVE[base, Base.STRING](value))
        case _:
            return str(value)


def fit_decimal(value: decimal.Decimal, target: SqlType) -> decimal.Decimal:
    """Round to the scale of a DECIMAL type.

    Raises:
        ArithmeticError: the number has too many digits, or is not finite.
    """
    size = decimal_of(target)
    if not value.is_finite() or value.adjusted() > size.precision:
        raise ArithmeticError("Numeric field overflow")
    result = value.quantize(decimal.Decimal(1).scaleb(-size.scale), context=EXACT)
    if result != 0 and result.adjusted() >= size.precision - size.scale:
        raise ArithmeticError("Numeric field overflow")
    return result or result.copy_abs()


def saturating_int(value: float, bits: int) -> int:
    """Drop the fraction of a DOUBLE as Java does: out-of-range values become the nearest integer, NaN becomes 0."""
    if math.isnan(value):
        return 0
    limit = 1 << (bits - 1)
    return limit - 1 if value >= limit else -limit if value <= -limit else int(value)


def _to_decimal(value: Any) -> decimal.Decimal:
    match value:
        case decimal.Decimal():
            return value
        case float():
            return decimal.Decimal(repr(value))
        case str():
            text = value.strip(_BLANKS)
            if _REAL.fullmatch(text) is None:
                raise ValueError(f"not a number: {value}")
            return decimal.Decimal(text)
        case _:
            return decimal.Decimal(int(value))


def _to_integer(bits: int) -> Callable[[str], int]:
    def convert(value: str) -> int:
        text = value.strip(_BLANKS)
        if _INTEGER.fullmatch(text) is None:
            raise ValueError(f"not an integer: {value}")
        number = int(text)
        if wrap_integer(number, bits) != number:
            raise ValueError(f"out of range: {value}")
        return number

    return convert


def _to_double(value: str) -> float:
    text = value.strip(_BLANKS)
    number = text[:-1] if text[-1:] in "fFdD" and text else text
    if _REAL.fullmatch(number) is None:
        raise ValueError(f"not a number: {value}")
    return float(number)


def _to_bytes(value: str) -> bytes:
    text = value.strip(_BLANKS)
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _padded(text: str, template: str) -> str:
    return text + template[len(text) :]


def _to_timestamp(value: str) -> int:
    date, has_time, rest = value.strip(_BLANKS).partition("T")
    match = _ZONE.search(rest)
    zone = match.group() if match else "Z"
    time = rest[: match.start()] if match else rest
    if not has_time and _DATE.fullmatch(date) is None:
        raise ValueError(f"not a timestamp: {value}")
    parts = _INSTANT.fullmatch(f"{date if has_time else _padded(date, '0000-01-01')} {_padded(time, '00:00:00.000')}")
    if parts is None:
        raise ValueError(f"not a timestamp: {value}")
    year, month, day, hour, minute, second, millis = map(int, parts.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"not a timestamp: {value}")
    offset = 0 if zone == "Z" else (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 60 + int(zone[-2:]))
    return _days(year, month, day) * DAY_MS + ((hour * 60 + minute - offset) * 60 + second) * 1000 + millis


def _to_date(value: str) -> int:
    text = value.strip(_BLANKS)
    if _DATE.fullmatch(text) is None:
        raise ValueError(f"not a date: {value}")
    year, month, day = map(int, _padded(text, "0000-01-01").split("-"))
    return _days(year, month, day)


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01; raise ValueError if there is no such day (the calendar repeats every 400 years)."""
    dt.date(2000 + year % 400, month, day)
    return to_days(year, month, day)


def _to_time(value: str) -> int:
    match = _TIME.fullmatch(value.strip(_BLANKS))
    if match is None:
        raise ValueError(f"not a time: {value}")
    hour, minute, second, fraction = (part or "0" for part in match.groups())
    return ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1000 + int(fraction.ljust(3, "0")[:3])


def _timestamp_text(value: int) -> str:
    days, millis = divmod(value, DAY_MS)
    return f"{date_text(days)}T{time_text(millis // 1000)}.{millis % 1000:03d}"


def _time_of_day(value: int) -> str:
    text = time_text(value // 1000)
    return text if value // 1000 % 60 else text[:5]


def _unchanged(value: Any) -> Any:
    return value


_PRIMITIVE: Mapping[tuple[Base, Base], Callable[[Any], Any]] = {
    (Base.BOOLEAN, Base.STRING): lambda value: "true" if value else "false",
    (Base.INTEGER, Base.BIGINT): _unchanged,
    (Base.INTEGER, Base.DOUBLE): float,
    (Base.INTEGER, Base.STRING): str,
    (Base.BIGINT, Base.INTEGER): lambda value: wrap_integer(value, 32),
    (Base.BIGINT, Base.DOUBLE): float,
    (Base.BIGINT, Base.STRING): str,
    (Base.DOUBLE, Base.INTEGER): lambda value: saturating_int(value, 32),
    (Base.DOUBLE, Base.BIGINT): lambda value: saturating_int(value, 64),
    (Base.DOUBLE, Base.STRING): java_double,
    (Base.STRING, Base.BOOLEAN): lambda value: value.strip(_BLANKS).lower() in _TRUE,
    (Base.STRING, Base.INTEGER): _to_integer(32),
    (Base.STRING, Base.BIGINT): _to_integer(64),
    (Base.STRING, Base.DOUBLE): _to_double,
    (Base.STRING, Base.BYTES): _to_bytes,
    (Base.STRING, Base.TIMESTAMP): _to_timestamp,
    (Base.STRING, Base.DATE): _to_date,
    (Base.STRING, Base.TIME): _to_time,
    (Base.TIMESTAMP, Base.STRING): _timestamp_text,
    (Base.TIMESTAMP, Base.DATE): lambda value: value // DAY_MS,
    (Base.TIMESTAMP, Base.TIME): lambda value: value % DAY_MS,
    (Base.DATE, Base.STRING): date_text,
    (Base.DATE, Base.TIMESTAMP): lambda value: value * DAY_MS,
    (Base.TIME, Base.STRING): _time_of_day,
}
