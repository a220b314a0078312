"""Converts values of the engine to the types that Python programs use, and back: DATE to `date`, and so on."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kestrel_sql.arrow.types import to_arrow
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
)

Convert = Callable[[Any], Any]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def to_python(sql_type: SqlType) -> Convert:
    """Return the conversion of a value of the engine; a moment beyond Python's years stays an integer."""
    return _through(sql_type, lambda leaf: _OUTWARD.get(leaf, _same))


def to_column(sql_type: SqlType) -> Convert:
    """Return the conversion of a value of the engine to one of a column of `arrow_type`: TIME stays ms of the day."""
    return _through(sql_type, lambda leaf: _same if leaf == TIME else _OUTWARD.get(leaf, _same))


def from_python(sql_type: SqlType) -> Convert:
    """Return the conversion to a value of the engine; integers (days, ms of the day, epoch ms) are taken as they are.

    The conversion raises TypeError for a value of another type.
    """
    return _through(sql_type, lambda leaf: _exact if isinstance(leaf, Decimal) else _INWARD.get(leaf, _same))


def arrow_type(sql_type: SqlType) -> pa.DataType:
    """Return the Arrow type of a converted value, which Spark reads as a column; TIME is ms of the day."""
    match sql_type:
        case Array(item):
            return pa.list_(arrow_type(item))
        case Map(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case Struct(fields):
            return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in fields])
        case _ if sql_type == DATE:
            return pa.date32()
        case _ if sql_type == TIMESTAMP:
            return pa.timestamp("ms", tz="UTC")
        case _:
            return to_arrow(sql_type)


def _through(sql_type: SqlType, of_leaf: Callable[[SqlType], Convert]) -> Convert:
    """Return the conversion of a type, given those of the types without parts; NULL stays NULL."""
    match sql_type:
        case Array(item):
            inner = _through(item, of_leaf)
            convert: Convert = lambda items: [inner(each) for each in items]  # noqa: E731
        case Map(key, value):
            of_key, of_value = _through(key, of_leaf), _through(value, of_leaf)
            convert = lambda pairs: {of_key(k): of_value(v) for k, v in dict(pairs).items()}  # noqa: E731
        case Struct(fields):
            of = {each.name: _through(each.type, of_leaf) for each in fields}
            convert = lambda row: {name: of[name](row.get(name)) for name in of}  # noqa: E731
        case _:
            convert = of_leaf(sql_type)
    return lambda value: None if value is None else convert(value)


def _same(value: object) -> object:
    return value


def _of(*types: type) -> Convert:
    """Return a check of the type of a value; `bool` is no number."""

    def checked(value: object) -> object:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise TypeError(f"not {value!r}")
        return value

    return checked


def _whole(value: object) -> int:
    return int(_of(int)(value))


def _exact(value: object) -> decimal.Decimal:
    return decimal.Decimal(_of(int, decimal.Decimal)(value))


def _date(days: int) -> object:
    try:
        return (_EPOCH + dt.timedelta(days=days)).date()
    except OverflowError:
        return days


def _time(millis: int) -> dt.time:
    return (_EPOCH + dt.timedelta(milliseconds=millis)).time()


def _moment(millis: int) -> object:
    try:
        return _EPOCH + dt.timedelta(milliseconds=millis)
    except OverflowError:
        return millis


def _days(value: object) -> int:
    if isinstance(value, dt.datetime):
        value = value.date()
    return value.toordinal() - dt.date(1970, 1, 1).toordinal() if isinstance(value, dt.date) else _whole(value)


def _millis_of_day(value: object) -> int:
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return _whole(value)


def _millis(value: object) -> int:
    if isinstance(value, dt.datetime):
        # Spark gives moments without a zone, in that of the session, which is UTC.
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // _MILLISECOND
    return _whole(value)


_OUTWARD: dict[SqlType, Convert] = {DATE: _date, TIME: _time, TIMESTAMP: _moment}
_INWARD: dict[SqlType, Convert] = {
    BOOLEAN: _of(bool),
    INTEGER: _of(int),
    BIGINT: _of(int),
    DOUBLE: lambda value: float(_of(int, float)(value)),
    STRING: _of(str),
    BYTES: lambda value: bytes(_of(bytes, bytearray)(value)),
    DATE: _days,
    TIME: _millis_of_day,
    TIMESTAMP: _millis,
}
