"""Reads parsed JSON as Connect values, by the rules of Connect's JsonSchemaConverter (rules F4.5)."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

from msgspec.structs import replace

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind, Missing
from kestrel_sql.formats.serde import ConversionError, describe
from kestrel_sql.java.numbers import EXACT, INT_MAX, INT_MIN, to_double, truncate_decimal, wrap_integer
from kestrel_sql.types.time_units import DAY_MS

Convert = Callable[..., object]


def default_of(schema: ConnectSchema, value: object) -> object:
    """Return the Connect value of a default, which is read as a value of the schema is.

    Raises:
        FormatError: it is none; a struct has no default (rule F4.5.6).
    """
    try:
        found = None if schema.kind is Kind.STRUCT else reader(replace(schema, optional=False))(value)
    except Exception as error:
        raise FormatError(f"Invalid default value: {describe(error)}") from error
    if found is None:
        raise FormatError(f"Invalid default value for {schema.kind.value}: {str(value)[:100]}")
    return found


def reader(schema: ConnectSchema) -> Convert:
    """Return the conversion from a parsed JSON value, including null, to a Connect value."""
    convert = _reader(schema)

    def read(value: object) -> object:
        if value is not None:
            return convert(value)
        if schema.default is not Missing.MISSING:
            return schema.default
        if schema.optional:
            return None
        raise ConversionError(f"Invalid null value for required {schema.kind.value} field")

    return read


def _reader(schema: ConnectSchema) -> Convert:
    match schema.kind:
        case Kind.ARRAY:
            return _items(reader(schema.only_item))
        case Kind.MAP:
            return _members(reader(schema.only_item), schema.key is not None and schema.key.kind is Kind.STRING)
        case Kind.STRUCT:
            return _struct_reader(tuple((field.name, reader(field.schema)) for field in schema.fields))
        case Kind.DECIMAL:
            return _decimal(schema.scale)
        case kind:
            return _SCALARS[kind]


_T = TypeVar("_T")


def _require(value: object, kind: type[_T], description: str) -> _T:
    if not isinstance(value, kind):
        raise ConversionError(f"Expected {description}, found {type(value).__name__}")
    return value


def _items(convert: Convert) -> Convert:
    def read(value: object) -> object:
        # Jackson iterates over the members of an object; the nodes of other values have none.
        items = value.values() if type(value) is dict else value if type(value) is list else ()
        return [convert(item) for item in items]

    return read


def _members(convert: Convert, text_keys: bool) -> Convert:
    def read(value: Any) -> object:
        if text_keys:
            return {key: convert(item) for key, item in _require(value, dict, "an object").items()}
        return {entry["key"]: convert(entry["value"]) for entry in _require(value, list, "an array of entries")}

    return read


def _struct_reader(fields: tuple[tuple[str, Convert], ...]) -> Convert:
    def read(value: Any) -> object:
        own, members = _require(value, dict, "an object"), dict[str, object]()
        for name, convert in fields:
            try:
                members[name] = convert(own.get(name))
            except ConversionError as error:
                error.prepend(f".{name}")
                raise
        return members

    return read


def _integer(bits: int) -> Convert:
    def read(value: object) -> int:
        if type(value) is int:
            return wrap_integer(value, bits)
        return truncate_decimal(value, bits) if type(value) is Decimal else 0

    return read


def _double(value: object) -> float:
    if type(value) is int or type(value) is Decimal:
        return to_double(value)
    # Jackson's doubleValue() returns 0 for other nodes, also for the texts "NaN" and "Infinity".
    return 0.0


def _float(value: float) -> float:
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _whole(kind: Kind, least: int | None, most: int | None) -> Convert:
    """Dates and times are whole numbers in a range; one without a range wraps around."""

    def read(value: object) -> int:
        if type(value) is not int:
            raise ConversionError(f"Invalid type for {kind.value}, underlying representation should be integer")
        if least is None or most is None:
            return wrap_integer(value, 64)
        if not least <= value <= most:
            raise ConversionError(f"Invalid value for {kind.value}, which must be from {least} to {most}")
        return value

    return read


def _decimal(scale: int) -> Convert:
    def read(value: Any) -> Decimal:
        if type(value) is int or type(value) is Decimal:
            return Decimal(value)
        data = base64.b64decode(value, validate=True)[:1000]
        if not data:
            raise ConversionError("Zero length BigInteger")
        unscaled = int.from_bytes(data, "big", signed=True)
        return Decimal(unscaled).scaleb(-scale, EXACT)

    return read


_SCALARS: dict[Kind, Convert] = {
    Kind.FLOAT32: lambda value: _float(_double(value)),
    Kind.FLOAT64: _double,
    Kind.BYTES: lambda value: base64.b64decode(value, validate=True),
    # Jackson's textValue() and booleanValue() return null and false for other nodes.
    Kind.STRING: lambda value: value if type(value) is str else None,
    Kind.BOOLEAN: lambda value: value is True,
    Kind.DATE: _whole(Kind.DATE, INT_MIN, INT_MAX),
    Kind.TIME: _whole(Kind.TIME, 0, DAY_MS),
    Kind.TIMESTAMP: _whole(Kind.TIMESTAMP, None, None),
    Kind.INT8: _integer(8),
    Kind.INT16: _integer(16),
    Kind.INT32: _integer(32),
    Kind.INT64: _integer(64),
}
