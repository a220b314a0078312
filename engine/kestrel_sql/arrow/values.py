"""Converts Python values to the form of Arrow and Spark rows."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kestrel_sql.arrow.types import CARRIER, DIGITS
from kestrel_sql.types.carried import is_wide
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import STRING, Array, Decimal, Map, SqlType, Struct

T = TypeVar("T")

Convert = Callable[[Any], Any]


def _lifted(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def uncarried(value: Mapping[str, str]) -> object:
    """Return a carried value: a DECIMAL, or a STRUCT without fields."""
    return decimal.Decimal(value[DIGITS]) if DIGITS in value else {}


def _with_key(mapping: Mapping[object, object], null: str | None) -> Mapping[object, object]:
    """Replace a NULL key, which no map of Arrow has, as JSON writes it; leave out that of another type."""
    if None not in mapping:
        return mapping
    named = {null if key is None else key: value for key, value in mapping.items()}
    return {key: value for key, value in named.items() if key is not None}


def _same(value: T) -> T:
    return value


def to_arrow_value(sql_type: SqlType) -> Convert | None:
    """Return the conversion of a Python value for Arrow (maps become lists of pairs); None if it needs none."""
    match sql_type:
        case Decimal() if is_wide(sql_type):
            return _lifted(lambda number: {CARRIER: None, DIGITS: f"{number:f}"})
        case Map(key, value):
            of_key, of_value = to_arrow_value(key) or _same, to_arrow_value(value) or _same
            null = "null" if key == STRING else None
            return _lifted(lambda mapping: [(of_key(k), of_value(v)) for k, v in _with_key(mapping, null).items()])
        case Array(item):
            inner = to_arrow_value(item)
            return None if inner is None else _lifted(lambda items: [inner(v) for v in items])
        case Struct(()):
            return _lifted(lambda _: {CARRIER: None})
        case Struct(fields):
            inners = [(f.name, to_arrow_value(f.type)) for f in fields]
            if not any(convert for _, convert in inners):
                return None
            return _lifted(lambda row: {n: row.get(n) if c is None else c(row.get(n)) for n, c in inners})
        case _:
            return None


def row_converter(columns: Sequence[Column]) -> Convert:
    """Return the conversion of a row in column order for Arrow; None stays None."""
    converts = [to_arrow_value(column.type) for column in columns]
    if not any(converts):
        return _lifted(tuple)
    return _lifted(lambda row: tuple(v if c is None else c(v) for c, v in zip(converts, row, strict=True)))
