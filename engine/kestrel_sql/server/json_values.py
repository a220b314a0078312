"""JSON values of requests to values of columns, and values of columns to JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import orjson

from kestrel_sql.admin.readable import readable
from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.formats.json.text import write_fast
from kestrel_sql.planner.expressions.insert_coercion import coerce_value
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column

_RANGES: Mapping[t.SqlType, int] = {t.INTEGER: 1 << 31, t.BIGINT: 1 << 63}


def write_json(value: object) -> bytes:
    """Write JSON as Jackson does: decimals with all their digits, bytes in base64, numbers that are none as text."""
    return write_fast(value, _default, orjson.OPT_NON_STR_KEYS)


def _default(value: object) -> object:
    match value:
        case Decimal():
            return orjson.Fragment(f"{value:f}")
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return dict(value)
        case Sequence():
            return list(value)
        case _:
            raise TypeError(type(value).__name__)


def row_writer(columns: Sequence[Column]) -> Callable[[Sequence[object]], list[Any]]:
    """A function that makes a row of JSON values: times become texts, and NaN and the infinities do."""
    makers = [(at, column.type) for at, column in enumerate(columns) if _is_rewritten(column.type)]

    def write(values: Sequence[object]) -> list[object]:
        row = list(values)
        for at, sql_type in makers:
            row[at] = _finite(readable(row[at], sql_type))
        return row

    return write


def _is_rewritten(sql_type: t.SqlType) -> bool:
    match sql_type:
        case t.Array(item):
            return _is_rewritten(item)
        case t.Map(_, value):
            return _is_rewritten(value)
        case t.Struct(fields):
            return any(_is_rewritten(field.type) for field in fields)
        case _:
            return sql_type in (t.DATE, t.TIME, t.TIMESTAMP, t.DOUBLE)


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case list():
            return [_finite(item) for item in value]
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case _:
            return value


def read_value(value: object, column: Column) -> object:
    """The value of a column that a JSON value stands for; floats may come as `Decimal`.

    Raises:
        TypeMismatchError: it does not fit.
    """
    try:
        return _read(value, column.type)
    except (_UnfitError, TypeMismatchError) as error:
        raise TypeMismatchError(
            f"Can't coerce a field of type {_kind(value)} to column {t.quote(column.name)} of type {column.type}",
            hint=error.hint if isinstance(error, TypeMismatchError) else str(error) or None,
        ) from error


class _UnfitError(Exception):
    """A value that has no counterpart in the type."""


def _read(value: object, sql_type: t.SqlType) -> object:
    match sql_type, value:
        case _, None:
            return None
        case ((t.STRING), str()):
            return value
        case t.BOOLEAN, bool():
            return value
        case ((t.Array() | t.Map() | t.Struct()), _):
            return _read_nested(value, sql_type)
        case t.Decimal(precision, scale), str() | int() | float() | Decimal() if not isinstance(value, bool):
            return _read_decimal(value, precision, scale)
        case ((t.INTEGER | t.BIGINT), int()) if not isinstance(value, bool):
            if not -_RANGES[sql_type] <= value < _RANGES[sql_type]:
                raise _UnfitError("the number is out of range")
            return value
        case t.DOUBLE, int() | float() | Decimal() if not isinstance(value, bool):
            return float(value)
        case ((t.DATE | t.TIME | t.TIMESTAMP | t.BYTES), str()):
            return coerce_value(value, t.STRING, Column("value", sql_type))
        case _:
            raise _UnfitError


def _read_nested(value: object, sql_type: t.SqlType) -> object:
    match sql_type, value:
        case t.Array(item), list():
            return [_read(each, item) for each in value]
        case t.Map(key, item), dict():
            return {_read(name, key): _read(each, item) for name, each in value.items()}
        case t.Struct(fields), dict():
            by_name = {name.upper(): each for name, each in value.items()} | value
            return {field.name: _read(by_name.get(field.name), field.type) for field in fields}
        case _:
            raise _UnfitError


def _read_decimal(value: str | int | float | Decimal, precision: int, scale: int) -> Decimal:
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
        rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=100))
    except InvalidOperation:
        raise _UnfitError(f"it does not fit a DECIMAL({precision}, {scale})") from None
    if not rounded.is_finite():
        raise _UnfitError("not a number")
    if len(rounded.as_tuple().digits) > precision and rounded:
        raise _UnfitError(f"it has more than {precision} digits")
    return rounded


def _kind(value: object) -> str:
    names = {
        bool: "Boolean",
        int: "Number",
        float: "Number",
        Decimal: "Number",
        str: "String",
        list: "Array",
        dict: "Object",
    }
    return names.get(type(value), "Null")
