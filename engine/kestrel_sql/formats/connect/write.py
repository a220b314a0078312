"""Converts rows to Connect values of a target schema, generated or from the registry (rules F8)."""

from __future__ import annotations

from collections.abc import Callable

from kestrel_sql.formats.connect.read import failing
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind, Missing
from kestrel_sql.formats.serde import ConversionError, Row
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Map, SqlType, Struct

Convert = Callable[..., object]


class _UnwritableError(Exception):
    """The target schema cannot hold rows with these columns."""


def row_writer(columns: tuple[Column, ...], target: ConnectSchema, unwrapped: bool) -> Callable[[Row], object]:
    """Return the conversion from a row to a value of `target`, by field name; if impossible, it fails for every row."""
    try:
        if unwrapped:
            convert = _value(columns[0].type, target, columns[0].name)
            return lambda row: convert(row[0])
        names = tuple(column.name for column in columns)
        return _struct(names, tuple(column.type for column in columns), target)
    except _UnwritableError as error:
        return failing(str(error))


def _value(sql_type: SqlType, target: ConnectSchema, name: str) -> Convert:
    convert = _converter(sql_type, target, name)

    def write(value: object) -> object:
        if value is not None:
            return value if convert is None else convert(value)
        if target.default is not Missing.MISSING:
            return target.default
        if target.optional:
            return None
        raise ConversionError(
            f'Invalid value: null used for required field: "{name}", schema type: {target.kind.value}', f".{name}"
        )

    return write


def _converter(sql_type: SqlType, target: ConnectSchema, name: str) -> Convert | None:
    match sql_type:
        case Array(item) if target.kind is Kind.ARRAY:
            convert = _value(item, target.only_item, name)
            return lambda items: [convert(each) for each in items]
        case Map(_, value) if target.kind is Kind.MAP:
            convert_value = _value(value, target.only_item, name)
            return lambda members: {key: convert_value(each) for key, each in members.items()}
        case Struct(fields) if target.kind is Kind.STRUCT:
            names = tuple(field.name for field in fields)
            write = _struct(names, tuple(field.type for field in fields), target)
            return lambda members: write(tuple(members.get(each) for each in names))
        case Array() | Map() | Struct():
            raise _UnwritableError(
                f"Cannot write {str(sql_type).partition('<')[0]} as {target.kind.value}, field: {name}"
            )
        case _:
            return None


def _struct(
    names: tuple[str, ...], types: tuple[SqlType, ...], target: ConnectSchema
) -> Callable[[Row], dict[str, object]]:
    schemas = {field.name: field.schema for field in target.fields}
    steps: list[tuple[str, Convert]] = []
    for name, sql_type in zip(names, types, strict=True):
        # Avro allows no dots in names, so such a field of a STRUCT is written with underscores.
        field_name = name if name in schemas else name.replace(".", "_")
        if field_name not in schemas:
            raise _UnwritableError(f"Schema from Schema Registry misses field with name: {name}")
        steps.append((field_name, _value(sql_type, schemas[field_name], name)))
    used = {field_name for field_name, _ in steps}
    extra = {field.name: _default(field.name, field.schema) for field in target.fields if field.name not in used}

    def write(row: Row) -> dict[str, object]:
        members = dict(extra)
        for (name, convert), value in zip(steps, row, strict=True):
            members[name] = convert(value)
        return members

    return write


def _default(name: str, schema: ConnectSchema) -> object:
    if schema.default is not Missing.MISSING:
        return schema.default
    if schema.optional:
        return None
    raise _UnwritableError(
        f"Missing default value for required Avro field: [{name}]. "
        "This field appears in Avro schema in Schema Registry but not in the row."
    )
