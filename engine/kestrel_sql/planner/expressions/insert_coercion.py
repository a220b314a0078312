"""Coerces the values of INSERT VALUES to the types of their columns (rules N9)."""

from __future__ import annotations

import base64
import binascii
import decimal
from collections.abc import Mapping

from kestrel_sql.errors import EngineError, TypeMismatchError
from kestrel_sql.java.time.iso import parse_date, parse_time, parse_timestamp
from kestrel_sql.types.conversion import numeric_rank
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import (
    BYTES,
    DATE,
    DOUBLE,
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


def coerce_value(value: object, source: SqlType | None, column: Column) -> object:
    """Convert a value of the type `source` (None for an untyped NULL) to the type of the column.

    Values are the Python values of `types.sql_types`. Numbers widen, to DECIMAL only without rounding. Strings become
    dates, times, timestamps or (base64) bytes, never numbers. Collections coerce their items. A struct may lack fields
    of the column, and its other fields are dropped. NULL fits every type.

    Raises:
        TypeMismatchError: the value does not fit.
    """
    try:
        return _coerce(value, source, column.type)
    except _UnfitError as error:
        got = f"Expected type {column.type} for field `{column.name}` but got {source}"
        shown = "" if isinstance(value, list | dict) else f"({value})"
        raise TypeMismatchError(f"{got}{shown}", hint=str(error) or None, public=got) from error


_WRITTEN: Mapping[SqlType, str] = {
    BYTES: "bytes are written in base64",
    TIMESTAMP: "a TIMESTAMP is written as 2020-05-26T23:59:58.000, with an optional offset such as +02:00",
    DATE: "a DATE is written as 2020-05-26",
    TIME: "a TIME is written as 23:59:58",
}


class _UnfitError(Exception):
    """A value that cannot be converted to the wanted type."""


def _coerce(value: object, source: SqlType | None, target: SqlType) -> object:
    if value is None:
        return None
    match source, target:
        case Array(item), Array(wanted) if isinstance(value, list):
            return [_coerce(part, item, wanted) for part in value]
        case Map(key, item), Map(wanted_key, wanted) if isinstance(value, dict):
            return {_coerce(k, key, wanted_key): _coerce(v, item, wanted) for k, v in value.items()}
        case Struct(), Struct() if isinstance(value, dict):
            return _coerce_struct(value, source, target)
        case _ if source is not None and is_numeric(source) and is_numeric(target):
            return _coerce_number(value, source, target)
        case _ if source == STRING and target != STRING and isinstance(value, str):
            return _parse(value, target)
        case _ if source == target:
            return value
        case _:
            raise _UnfitError


def _coerce_struct(value: Mapping[str, object], source: Struct, target: Struct) -> dict[str, object]:
    types = {field.name: field.type for field in source.fields}
    return {field.name: _coerce(value.get(field.name), types.get(field.name), field.type) for field in target.fields}


def _coerce_number(value: object, source: SqlType, target: SqlType) -> object:
    if numeric_rank(source) > numeric_rank(target) or not isinstance(value, int | float | decimal.Decimal):
        raise _UnfitError
    if target == DOUBLE:
        return float(value)
    if isinstance(target, Decimal):
        return _fit(decimal.Decimal(value), target)
    return value


def _fit(number: decimal.Decimal, target: Decimal) -> decimal.Decimal:
    with decimal.localcontext(prec=80):
        scaled = number.quantize(decimal.Decimal(1).scaleb(-target.scale), rounding=decimal.ROUND_HALF_UP)
        if scaled != number:
            raise _UnfitError(f"the number has more than {target.scale} decimals")
    if abs(scaled) >= 10 ** (target.precision - target.scale):
        raise _UnfitError(f"the number has more than {target.precision - target.scale} digits before the point")
    return scaled


def _parse(text: str, target: SqlType) -> object:
    try:
        if target == BYTES:
            return base64.b64decode(text, validate=True)
        if target == TIMESTAMP:
            return parse_timestamp(text)
        if target == DATE:
            return parse_date(text)
        if target == TIME:
            return parse_time(text)
    except (ValueError, binascii.Error, EngineError) as error:
        raise _UnfitError(_WRITTEN[target]) from error
    raise _UnfitError
