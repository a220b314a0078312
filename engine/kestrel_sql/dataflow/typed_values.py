"""Values as those of the types of their columns: what state and functions give may be written in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kestrel_sql.java.numbers import round_decimal
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import DOUBLE, STRING, Array, Decimal, Map, SqlType, Struct

Convert = Callable[[Any], Any]


def typed_rows(rows: Iterable[Sequence[object]], columns: Sequence[Column]) -> list[tuple[object, ...]]:
    """Return rows whose values have exactly the types of their columns."""
    converters = [converter(column.type) for column in columns]
    if not any(converters):
        return list(map(tuple, rows))
    return [
        tuple(value if of is None or value is None else of(value) for of, value in zip(converters, row, strict=True))
        for row in rows
    ]


def converter(sql_type: SqlType | None) -> Convert | None:
    """The conversion of a value that is not NULL; None if it needs none."""
    match sql_type:
        case Decimal() if not sql_type.own_scales:
            return lambda number: _fitting(number, sql_type)
        case Array(item):
            of_item = _lifted(item)
            return lambda items: list(map(of_item, items))
        case Map(key, value):
            of_value = _lifted(value)
            # As JSON writes it.
            null = "null" if key == STRING else None
            return lambda mapping: {
                named: of_value(v) for k, v in mapping.items() if (named := null if k is None else k) is not None
            }
        case Struct(fields):
            of_fields = [(field.name, _lifted(field.type)) for field in fields]
            return lambda struct: {name: of_field(struct.get(name)) for name, of_field in of_fields}
        case _:
            return float if sql_type == DOUBLE else None


def _lifted(sql_type: SqlType) -> Convert:
    convert = converter(sql_type)
    return lambda value: value if value is None or convert is None else convert(value)


def _fitting(number: Any, sql_type: Decimal) -> Any:
    """The value at the scale of its type; NULL if it has too many digits."""
    try:
        return round_decimal(number, sql_type)
    except ArithmeticError:
        return None
