"""Converts Connect values to rows: which type of the writer may become which column type (rules F4.6)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal as Number
from typing import Any, NoReturn

from kestrel_sql.formats.connect.schema import FLOATS, INTEGERS, ConnectSchema, Kind
from kestrel_sql.formats.serde import ConversionError, Row, of_items
from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.java.numbers import fit_decimal, java_double
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct

Convert = Callable[..., object]
"""Converts a Connect value, not None, to a value of a column."""

_SMALL = INTEGERS - {Kind.INT64}

ACCEPTED: dict[Base, frozenset[Kind]] = {
    Base.BOOLEAN: frozenset({Kind.BOOLEAN}),
    Base.INTEGER: _SMALL | {Kind.DATE, Kind.TIME},
    Base.BIGINT: INTEGERS | {Kind.DATE, Kind.TIME, Kind.TIMESTAMP},
    Base.DOUBLE: FLOATS,
    Base.STRING: INTEGERS | FLOATS | {Kind.BOOLEAN, Kind.STRING, Kind.DATE, Kind.TIME, Kind.TIMESTAMP},
    Base.BYTES: frozenset({Kind.BYTES}),
    Base.TIME: frozenset({Kind.TIME, Kind.INT32}),
    Base.DATE: frozenset({Kind.DATE, Kind.INT32}),
    Base.TIMESTAMP: frozenset({Kind.TIMESTAMP, Kind.INT64}),
}


class MismatchError(Exception):
    """No conversion leads from the writer's type to the column's; found once, reported for every record."""


def _refuse(schema: ConnectSchema, sql_type: SqlType, path: str) -> MismatchError:
    return MismatchError(
        f"Cannot deserialize type {schema.kind.value} as type {str(sql_type).partition('<')[0]} for path: {path}"
    )


def _float_text(value: float) -> str:
    packed = struct.pack(">f", value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack(">f", float(text)) == packed:
            return java_double(float(text))
    return java_double(value)


def _text(kind: Kind) -> Callable[..., str] | None:
    if kind is Kind.STRING:
        return None
    if kind is Kind.BOOLEAN:
        return lambda value: "true" if value else "false"
    if kind is Kind.FLOAT32:
        return _float_text
    return java_double if kind is Kind.FLOAT64 else str


def converter(schema: ConnectSchema, sql_type: SqlType, path: str) -> Convert | None:
    """Return the conversion from a value of `schema` to one of `sql_type`; None if the value needs none.

    Raises:
        MismatchError: there is no conversion.
    """
    match sql_type:
        case Primitive(base) if schema.kind in ACCEPTED[base]:
            return _text(schema.kind) if base is Base.STRING else None
        case Decimal(precision, scale) if schema.kind is Kind.DECIMAL:
            return _decimal(precision, scale, path)
        case Array(item) if schema.kind is Kind.ARRAY:
            return of_items(converter(schema.only_item, item, f"{path}->ARRAY"))
        case Map(_, value) if schema.kind is Kind.MAP:
            return _members(converter(schema.only_item, value, f"{path}->MAP->VALUE"), _map_key(schema))
        case Struct(fields) if schema.kind is Kind.STRUCT:
            names = tuple(field.name for field in fields)
            read = _fields(schema, names, tuple(field.type for field in fields), path)
            return lambda members: dict(zip(names, read(members), strict=True))
        case _:
            raise _refuse(schema, sql_type, path)


def _map_key(schema: ConnectSchema) -> Callable[..., str] | None:
    return None if schema.key is None else _text(schema.key.kind)


def _decimal(precision: int, scale: int, path: str) -> Convert:
    def convert(value: Number) -> Number:
        try:
            return fit_decimal(value, precision, scale)
        except ValueError as error:
            raise ConversionError(str(error), path.replace("->", ".")) from error

    return convert


def _members(convert: Convert | None, key_text: Callable[..., str] | None) -> Convert:
    def read(members: dict[str | None, object]) -> dict[str | None, object]:
        if None in members:
            # A Java map may have a null key, a map in Spark may not.
            raise ConversionError("MAP with a null key")
        if key_text is not None:
            members = {key_text(key): value for key, value in members.items()}
        order = java_hash_order(members) if len(members) > 1 else list(members)
        if convert is None:
            return {key: members[key] for key in order}
        return {key: None if members[key] is None else convert(members[key]) for key in order}

    return read


def _fields(
    schema: ConnectSchema, names: tuple[str, ...], types: tuple[SqlType, ...], path: str
) -> Callable[[dict[str, object]], Row]:
    """Match every field of the data by exact name, else by upper-case name; of several matches the last one wins.

    A column name with dots also matches its Avro form with underscores.
    """
    index = {name.replace(".", "_"): at for at, name in enumerate(names)} | {name: at for at, name in enumerate(names)}
    plan: dict[int, tuple[str, Convert | None]] = {}
    for field in schema.fields:
        at = index.get(field.name, index.get(field.name.upper()))
        if at is not None:
            plan[at] = (field.name, converter(field.schema, types[at], f"{path}->{names[at]}"))
    steps = [(at, name, convert) for at, (name, convert) in sorted(plan.items())]
    width = len(names)

    def read(members: dict[str, object]) -> Row:
        row: list[Any] = [None] * width
        for at, name, convert in steps:
            value = members.get(name)
            row[at] = value if value is None or convert is None else convert(value)
        return tuple(row)

    return read


def row_reader(schema: ConnectSchema, columns: tuple[Column, ...], unwrapped: bool) -> Callable[[object], Row]:
    """Return the conversion from a top-level value to a row; if types do not match, it fails for every record."""
    try:
        if unwrapped:
            return _bare(converter(schema, columns[0].type, f"->{columns[0].name}"))
        if schema.kind is not Kind.STRUCT:
            raise MismatchError(f"Cannot deserialize type {schema.kind.value} as type STRUCT for path: ")
        return _record(_fields(schema, tuple(c.name for c in columns), tuple(c.type for c in columns), ""))
    except MismatchError as error:
        return failing(str(error))


def _bare(convert: Convert | None) -> Callable[[object], Row]:
    return lambda value: (value if value is None or convert is None else convert(value),)


def _record(read: Callable[[dict[str, object]], Row]) -> Callable[..., Row]:
    def record(value: dict[str, object] | None) -> Row:
        if value is None:
            raise ValueError("null where a record was expected")
        return read(value)

    return record


def failing(message: str) -> Callable[[object], NoReturn]:
    """Return a conversion that fails for every value."""

    def fail(_: object) -> NoReturn:
        raise ValueError(message)

    return fail
