"""Converts Python values to the form of Arrow and Spark rows, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Map, SqlType, Struct

Convert = Callable[[Any], Any]


def _lifted(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def to_arrow_value(sql_type: SqlType) -> Convert | None:
    """Return the conversion of a Python value for Arrow (maps become lists of pairs); None if it needs none."""
    match sql_type:
        case Map(_, value):
            of_value = to_arrow_value(value) or _same
            return _lifted(lambda mapping: [(k, of_value(v)) for k, v in mapping.items()])
        case Array(item):
            inner = to_arrow_value(item)
            return None if inner is None else _lifted(lambda items: [inner(v) for v in items])
        case Struct(fields):
            inners = [(f.name, to_arrow_value(f.type)) for f in fields]
            if not any(convert for _, convert in inners):
                return None
            return _lifted(lambda row: {n: row.get(n) if c is None else c(row.get(n)) for n, c in inners})
        case _:
            return None


def from_arrow_value(sql_type: SqlType | None) -> Convert | None:
    """Return the conversion of a value from Arrow; None if it needs none."""
    match sql_type:
        case Map(_, value):
            of_value = from_arrow_value(value) or _same
            return _lifted(lambda pairs: {k: of_value(v) for k, v in pairs})
        case Array(item):
            inner = from_arrow_value(item)
            return None if inner is None else _lifted(lambda items: [inner(v) for v in items])
        case Struct(fields):
            inners = {f.name: from_arrow_value(f.type) for f in fields}
            if not any(inners.values()):
                return None
            return _lifted(lambda row: {k: v if (c := inners[k]) is None else c(v) for k, v in row.items()})
        case _:
            return None


def row_converter(columns: Sequence[Column], of: Callable[[SqlType], Convert | None]) -> Convert:
    """Return the conversion of a row in column order; None stays None."""
    converts = [of(column.type) for column in columns]
    if not any(converts):
        return _lifted(tuple)
    return _lifted(lambda row: tuple(v if c is None else c(v) for c, v in zip(converts, row, strict=True)))
