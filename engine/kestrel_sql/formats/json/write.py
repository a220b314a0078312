"""Writes rows as JSON: columns in schema order, explicit nulls, numbers as in Java (rules F4.4)."""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable

import orjson

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.json.text import write_fast
from kestrel_sql.formats.serde import Encoder, Row, SerdeSpec, guard_encoder, of_items, of_members
from kestrel_sql.java.numbers import java_double
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BYTES, DOUBLE, STRING, Array, Decimal, Map, SqlType, Struct

Convert = Callable[..., object]
"""Converts a value of a column, not None, to one that orjson writes as ksqlDB does."""


def _double(value: float) -> object:
    return orjson.Fragment(java_double(value)) if math.isfinite(value) else java_double(value)


def _decimal(value: object) -> object:
    return orjson.Fragment(format(value, "f"))


def _base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def converter(sql_type: SqlType) -> Convert | None:
    """Return the function that prepares a value of `sql_type` for orjson; None if the value needs no change.

    Raises:
        FormatError: a MAP has keys other than STRING.
    """
    match sql_type:
        case Decimal():
            return _decimal
        case Array(item):
            return of_items(converter(item))
        case Map(key, value):
            if key != STRING:
                raise FormatError("JSON only supports MAP types with STRING keys")
            return of_members(converter(value))
        case Struct(fields):
            return _struct(tuple((field.name, converter(field.type)) for field in fields))
        case _ if sql_type == DOUBLE:
            return _double
        case _ if sql_type == BYTES:
            return _base64
        case _:
            return None


def _struct(fields: tuple[tuple[str, Convert | None], ...]) -> Convert:
    def convert(value: dict[str, object]) -> dict[str, object]:
        return {
            name: item if (item := value.get(name)) is None or field is None else field(item) for name, field in fields
        }

    return convert


def row_writer(columns: tuple[Column, ...], unwrapped: bool) -> Callable[[Row], bytes | None]:
    """Return the function that writes a row as JSON; an unwrapped NULL becomes null bytes.

    Raises:
        FormatError: JSON does not support the type of a column.
    """
    converters = [converter(column.type) for column in columns]
    if unwrapped:
        only = converters[0]

        def write_bare(row: Row) -> bytes | None:
            (value,) = row
            return None if value is None else write_fast(value if only is None else only(value))

        return write_bare
    names = [column.name for column in columns]
    if not any(converters):

        def write_plain(row: Row) -> bytes:
            return write_fast(dict(zip(names, row, strict=True)))

        return write_plain
    plan = list(zip(names, converters, strict=True))

    def write(row: Row) -> bytes:
        members = {
            name: value if value is None or convert is None else convert(value)
            for (name, convert), value in zip(plan, row, strict=True)
        }
        return write_fast(members)

    return write


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder of schemaless JSON.

    Raises:
        FormatError: JSON does not support the type of a column.
    """
    return guard_encoder(spec, row_writer(spec.columns, spec.unwrapped))
