"""Converts the dates and times in an answer to strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kestrel_sql.functions.values.casts import caster, unless_null
from kestrel_sql.types.sql_types import DATE, STRING, TIME, TIMESTAMP, Array, Map, SqlType, Struct

_TIMES = (DATE, TIME, TIMESTAMP)


def readable(value: Any, sql_type: SqlType) -> Any:
    """Return a value with its dates, times and timestamps as the strings that `CAST(… AS STRING)` gives."""
    convert = _converter(sql_type)
    return value if convert is None else convert(value)


def _converter(sql_type: SqlType) -> Callable[..., object] | None:
    """Return the function that converts values of a type, or None if they need no conversion."""
    if sql_type in _TIMES:
        return unless_null(caster(sql_type, STRING))
    match sql_type:
        case Array(item) if (of_item := _converter(item)) is not None:
            return lambda value: None if value is None else [of_item(each) for each in value]
        case Map(_, item) if (of_value := _converter(item)) is not None:
            return lambda value: None if value is None else {key: of_value(each) for key, each in value.items()}
        case Struct(fields) if any(_converter(field.type) for field in fields):
            return lambda value: (
                None if value is None else {field.name: readable(value.get(field.name), field.type) for field in fields}
            )
        case _:
            return None
