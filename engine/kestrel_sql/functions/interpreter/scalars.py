"""Implements the native scalar functions in Python (see `kestrel_sql.expressions.compiler`).

An implementation takes the types of the call and the arguments, and returns what the Spark expression of the same name
returns. An argument is None only if the declaration lets the body handle NULL. An exception fails the call.
"""

from __future__ import annotations

import decimal
import hashlib
import math
import random
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.functions.declaration import CallTypes
from kestrel_sql.functions.interpreter.casts import cast_value, saturating_int
from kestrel_sql.functions.interpreter.equality import equality_key, sort_key
from kestrel_sql.java import fdlibm
from kestrel_sql.java.numbers import ROUNDING, round_decimal, wrap_integer
from kestrel_sql.java.time.text import checked_time
from kestrel_sql.java.utf16 import units
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import SqlType
from kestrel_sql.types.time_units import DAY_MS, UNIT_MS

Implementation = Callable[..., Any]

_MOST_MS = (2**63 - 1) // 1_000_000
"""The longest span that Java adds to a time, which it counts in nanoseconds."""

_CONTROL = "".join(map(chr, range(33)))


def _wrapped(value: Any, sql_type: SqlType | None) -> Any:
    return wrap_integer(value, 32 if sql_type == t.INTEGER else 64) if sql_type in (t.INTEGER, t.BIGINT) else value


def _real(function: Callable[..., float]) -> Implementation:
    def implementation(types: CallTypes, *values: Any) -> float:
        try:
            return function(*map(float, values))
        except OverflowError:
            return math.copysign(math.inf, float(values[0]))
        except (ValueError, ZeroDivisionError):
            return math.nan

    return implementation


def _has_fraction(value: float) -> bool:
    return math.isfinite(value) and value != 0 and abs(value) < 2.0**52


def _round_double(types: CallTypes, value: float) -> int:
    if not _has_fraction(value):
        return saturating_int(value, 64)
    down = math.floor(value)
    return down + (value - down >= 0.5)


def _abs(types: CallTypes, value: float | decimal.Decimal) -> Any:
    return ROUNDING.abs(value) if isinstance(value, decimal.Decimal) else _wrapped(abs(value), types.returns)


def _sign(types: CallTypes, value: float) -> int:
    return (value > 0) - (value < 0)


def _extreme(choose: Callable[..., Any]) -> Implementation:
    def implementation(types: CallTypes, *values: Any) -> Any:
        present = [value for value in values if value is not None]
        return choose(present, key=sort_key) if present else None

    return implementation


def _concat(types: CallTypes, *parts: Any) -> Any:
    return (b"" if types.returns == t.BYTES else "").join(part for part in parts if part is not None)


def _concat_ws(types: CallTypes, separator: str | None, *parts: str | None) -> str | None:
    if not parts:
        raise ValueError("CONCAT_WS expects at least two input arguments.")
    return None if separator is None else separator.join(part for part in parts if part is not None)


def _elt(types: CallTypes, n: int, *texts: str | None) -> str | None:
    return texts[n - 1] if 1 <= n <= len(texts) else None


def _field(types: CallTypes, wanted: str | None, *texts: str | None) -> int:
    return 0 if wanted is None or wanted not in texts else texts.index(wanted) + 1


def _shift_instant(sign: int) -> Implementation:
    def implementation(types: CallTypes, unit: str, count: int, instant: int) -> int:
        return wrap_integer(instant + sign * count * UNIT_MS[unit], 64)

    return implementation


def _shift_date(sign: int) -> Implementation:
    def implementation(types: CallTypes, unit: str, count: int, date: int) -> int:
        millis = wrap_integer(date * DAY_MS + sign * count * UNIT_MS[unit], 64)
        return wrap_integer(abs(millis) // DAY_MS * (1 if millis >= 0 else -1), 32)

    return implementation


def _shift_time(sign: int) -> Implementation:
    def implementation(types: CallTypes, unit: str, count: int, clock: int) -> int:
        span = max(-_MOST_MS - 1, min(_MOST_MS, sign * count * UNIT_MS[unit]))
        return (checked_time(clock) + span) % DAY_MS

    return implementation


def _first(types: CallTypes, *values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _same(types: CallTypes, value: Any) -> Any:
    return value


def _ceil_double(types: CallTypes, value: float) -> float:
    return math.copysign(float(math.ceil(value)), value) if _has_fraction(value) else value


IMPLEMENTATIONS: Mapping[str, Implementation] = {
    "abs_": _abs,
    "acos": _real(fdlibm.acos),
    "as_value": _same,
    "asin": _real(fdlibm.asin),
    "atan": _real(fdlibm.atan),
    "atan2": _real(fdlibm.atan2),
    "cbrt": _real(fdlibm.cbrt),
    "ceil_double": _ceil_double,
    "ceil_whole": _same,
    "coalesce": _first,
    "concat": _concat,
    "concat_bytes": _concat,
    "concat_ws": _concat_ws,
    "cosh": _real(fdlibm.cosh),
    "dateadd": _shift_date(1),
    "datesub": _shift_date(-1),
    "degrees": _real(math.degrees),
    "elt": _elt,
    "field": _field,
    "floor_double": lambda types, value: float(math.floor(value)) if _has_fraction(value) else value,
    "floor_whole": _same,
    "from_days": _same,
    "from_unixtime": _same,
    "greatest": _extreme(max),
    "greatest_decimal": _extreme(max),
    "ifnull": _first,
    "lcase": lambda types, value: value.lower(),
    "least": _extreme(min),
    "least_decimal": _extreme(min),
    "len_bytes": lambda types, value: len(value),
    "len_text": lambda types, value: len(units(value)),
    "md5": lambda types, value: hashlib.md5(value.encode(), usedforsecurity=False).hexdigest(),
    "nullif": lambda types, value, unwanted: (
        None if value is not None and equality_key(value) == equality_key(unwanted) else value
    ),
    "pi": lambda types: math.pi,
    "radians": _real(math.radians),
    "random": lambda types: random.random(),
    "round_double": _round_double,
    "round_whole": _same,
    "sign": _sign,
    "sinh": _real(fdlibm.sinh),
    "sqrt": _real(math.sqrt),
    "tanh": _real(fdlibm.tanh),
    "timeadd": _shift_time(1),
    "timestampadd": _shift_instant(1),
    "timestampsub": _shift_instant(-1),
    "timesub": _shift_time(-1),
    "trim": lambda types, value: value.strip(_CONTROL),
    "trunc_decimal": lambda types, value: round_decimal(
        value.to_integral_value(decimal.ROUND_DOWN, ROUNDING), types.returns
    ),
    "trunc_whole": lambda types, value: cast_value(value, types.arguments[0], t.BIGINT),
    "ucase": lambda types, value: value.upper(),
    "unix_date": _same,
    "unix_date_today": lambda types: int(time.time()) // 86_400,
    "unix_timestamp": _same,
    "unix_timestamp_now": lambda types: int(time.time() * 1000),
    "uuid_of": lambda types, value: str(uuid.UUID(bytes=value)) if len(value) == 16 else None,
    "uuid_random": lambda types: str(uuid.uuid4()),
}
"""By the name of the declared body."""
