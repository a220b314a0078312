"""Reads JSON to rows, with ksqlDB's coercions (rules F4.4)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal as Number
from typing import Any, TypeVar, assert_never

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.json import text as json_text
from kestrel_sql.formats.serde import ConversionError, Decoder, Row, SerdeSpec, guard_decoder
from kestrel_sql.java import numbers
from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import (
    STRING,
    Array,
    Base,
    Decimal,
    Map,
    NamedType,
    Primitive,
    SqlType,
    Struct,
    contains,
)
from kestrel_sql.types.time_units import DAY_MS

Convert = Callable[..., object]
"""Converts a parsed value, not None, to a value of a column."""

_NODE_NAMES = {
    bool: "BooleanNode",
    int: "IntNode",
    Number: "DecimalNode",
    str: "TextNode",
    dict: "ObjectNode",
    list: "ArrayNode",
}


_T = TypeVar("_T")


class _NeedsExactError(Exception):
    """A fraction was read as a float, but its exact digits matter; the document must be read again."""


def _refuse(value: object, required: str) -> ConversionError:
    if type(value) is float:
        raise _NeedsExactError
    name = _NODE_NAMES.get(type(value), "NullNode")
    if type(value) is int and not numbers.INT_MIN <= value <= numbers.INT_MAX:
        name = "LongNode" if numbers.LONG_MIN <= value <= numbers.LONG_MAX else "BigIntegerNode"
    return ConversionError(f"Can't convert type. sourceType: {name}, requiredType: {required}")


def _from_text(parse: Callable[[str], _T], text: str, target: str) -> _T:
    try:
        return parse(text)
    except ValueError as error:
        raise ConversionError(f"Can't coerce string to type. targetType: {target}") from error


def _to_boolean(value: object) -> bool:
    if type(value) is bool:
        return value
    raise _refuse(value, "BOOLEAN")


def _to_integer(target: str, bits: int, parse: Callable[[str], int]) -> Callable[[object], int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: object) -> int:
        if type(value) is int:
            return value if low <= value <= high else numbers.wrap_integer(value, bits)
        if type(value) is str:
            return _from_text(parse, value, target)
        if type(value) is Number:
            return numbers.truncate_decimal(value, bits)
        raise _refuse(value, target)

    return convert


def _to_time(value: object) -> int:
    time = _AS_INTEGER[Base.INTEGER](value) if type(value) is not int else value
    if not 0 <= time <= DAY_MS:
        raise ConversionError("Time values must use number of milliseconds greater than 0 and less than 86400000.")
    return time


def _to_double(value: Any) -> float:
    kind = type(value)
    if kind is float or kind is int or kind is Number:
        return numbers.to_double(value)
    if kind is str:
        return _from_text(numbers.parse_double, value, "DOUBLE")
    raise _refuse(value, "DOUBLE")


def _to_text(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Number():
            return str(value)
        case None:
            return "null"
        case list():
            return "[" + ", ".join(map(_to_text, value)) + "]"
        case dict():
            _refuse_floats(value)
            return json_text.write_compact(value)
        case _:
            raise _refuse(value, "STRING")


def _refuse_floats(value: object) -> None:
    if type(value) is float:
        raise _NeedsExactError
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        _refuse_floats(item)


def _to_bytes(value: object) -> bytes:
    if type(value) is str:
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except ValueError as error:
            raise ConversionError(f"Can't coerce string to type. targetType: BYTES. {error}") from error
    raise _refuse(value, "BYTES")


def _to_decimal(sql_type: Decimal) -> Convert:
    precision, scale, target = sql_type.precision, sql_type.scale, str(sql_type)

    def convert(value: Any) -> Number:
        kind = type(value)
        if kind is str:
            number = _from_text(numbers.parse_decimal, value, target)
        elif kind is int or kind is Number:
            number = Number(value)
        else:
            raise _refuse(value, target)
        try:
            return numbers.fit_decimal(number, precision, scale)
        except ValueError as error:
            raise ConversionError(str(error)) from error

    return convert


def _to_array(item: SqlType, target: str) -> Convert:
    convert_item = converter(item)

    def convert(value: object) -> list[object]:
        if type(value) is not list:
            raise _refuse(value, target)
        try:
            return [None if member is None else convert_item(member) for member in value]
        except ConversionError as error:
            error.prepend(_index_of(value, convert_item))
            raise

    return convert


def _index_of(items: list[object], convert_item: Convert) -> str:
    for at, item in enumerate(items):
        try:
            if item is not None:
                convert_item(item)
        except ConversionError:
            return f"[{at}]"
    return ""


def _to_map(sql_type: Map) -> Convert:
    if sql_type.key != STRING:
        raise FormatError("JSON only supports MAP types with STRING keys")
    convert_item = converter(sql_type.value)
    target = str(sql_type)

    def convert(value: object) -> dict[str, object]:
        if type(value) is not dict:
            raise _refuse(value, target)
        result: dict[str, object] = {}
        for key in java_hash_order(value, len(value)) if len(value) > 1 else value:
            member = value[key]
            try:
                result[key] = None if member is None else convert_item(member)
            except ConversionError as error:
                error.prepend(f".{key}")
                raise
        return result

    return convert


def _to_struct(sql_type: Struct) -> Convert:
    names = tuple(field.name for field in sql_type.fields)
    read = _fields(names, tuple(converter(field.type) for field in sql_type.fields))
    target = str(sql_type)

    def convert(value: object) -> dict[str, object]:
        if type(value) is not dict:
            raise _refuse(value, target)
        return dict(zip(names, read(value), strict=True))

    return convert


def _fields(names: tuple[str, ...], converters: tuple[Convert, ...]) -> Callable[[dict[str, object]], Row]:
    """Return a function that looks up each name exactly, else among upper-case names, of which the last one wins."""
    plan = tuple(zip(names, converters, strict=True))

    def read(members: dict[str, object]) -> Row:
        upper: dict[str, Any] | None = None
        row: list[Any] = []
        for name, convert in plan:
            value = members.get(name)
            if value is None and name not in members:
                if upper is None:
                    upper = {key.upper(): member for key, member in members.items()}
                value = upper.get(name)
            if value is not None:
                try:
                    value = convert(value)
                except ConversionError as error:
                    error.prepend(f".{name}")
                    raise
            row.append(value)
        return tuple(row)

    return read


_AS_INTEGER = {
    Base.INTEGER: _to_integer("INTEGER", 32, numbers.parse_int),
    Base.BIGINT: _to_integer("BIGINT", 64, numbers.parse_long),
    Base.DATE: _to_integer("DATE", 32, numbers.parse_int),
    Base.TIMESTAMP: _to_integer("TIMESTAMP", 64, numbers.parse_long),
}


_PRIMITIVE: Mapping[Base, Convert] = {
    **_AS_INTEGER,
    Base.BOOLEAN: _to_boolean,
    Base.TIME: _to_time,
    Base.DOUBLE: _to_double,
    Base.STRING: _to_text,
    Base.BYTES: _to_bytes,
}


def converter(sql_type: SqlType) -> Convert:
    """Return the function that coerces a parsed value to `sql_type`.

    Raises:
        FormatError: a MAP has keys other than STRING.
    """
    match sql_type:
        case Primitive(base):
            return _PRIMITIVE[base]
        case Decimal():
            return _to_decimal(sql_type)
        case Array(item):
            return _to_array(item, str(sql_type))
        case Map():
            return _to_map(sql_type)
        case Struct():
            return _to_struct(sql_type)
        case NamedType(name):
            raise FormatError(f"Cannot resolve unknown type: {name}")
        case other:
            assert_never(other)


def row_reader(columns: tuple[Column, ...], unwrapped: bool) -> Callable[[bytes], Row]:
    """Return the function that reads a row from JSON text.

    Raises:
        FormatError: JSON does not support the type of a column.
    """
    convert = _bare(columns[0]) if unwrapped else _wrapped(columns)
    parse = json_text.read_exact if any(has_decimal(column.type) for column in columns) else json_text.read_fast

    def read(data: bytes) -> Row:
        if not data:
            raise ValueError("No content to map due to end-of-input")
        try:
            return convert(parse(data))
        except _NeedsExactError:
            return convert(json_text.read_exact(data))

    return read


def has_decimal(sql_type: SqlType) -> bool:
    """Return whether values of a type must be read with all digits of their numbers."""
    return contains(sql_type, lambda part: isinstance(part, Decimal))


def _bare(column: Column) -> Callable[[object], Row]:
    convert = converter(column.type)
    return lambda value: (None if value is None else convert(value),)


def _wrapped(columns: tuple[Column, ...]) -> Callable[[object], Row]:
    read = _fields(tuple(column.name for column in columns), tuple(converter(column.type) for column in columns))
    target = str(Struct(())) if not columns else "STRUCT"

    def convert(value: object) -> Row:
        if type(value) is not dict:
            raise _refuse(value, target)
        return read(value)

    return convert


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of schemaless JSON.

    Raises:
        FormatError: JSON does not support the type of a column.
    """
    message = f"Failed to deserialize {spec.side.value} from topic: {spec.topic}"
    # Without columns it is an object of which no member is read (rule F6.3).
    return guard_decoder(spec, message, row_reader(spec.columns, spec.unwrapped))
