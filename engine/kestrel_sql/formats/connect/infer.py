"""Infers columns from Connect schemas, for CREATE statements without columns (rules F8)."""

from __future__ import annotations

from kestrel_sql.errors import RegistryError
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind
from kestrel_sql.formats.serde import Side
from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)

_PRIMITIVE: dict[Kind, SqlType] = {
    Kind.BOOLEAN: BOOLEAN,
    Kind.INT8: INTEGER,
    Kind.INT16: INTEGER,
    Kind.INT32: INTEGER,
    Kind.INT64: BIGINT,
    Kind.FLOAT32: DOUBLE,
    Kind.FLOAT64: DOUBLE,
    Kind.STRING: STRING,
    Kind.BYTES: BYTES,
    Kind.DATE: DATE,
    Kind.TIME: TIME,
    Kind.TIMESTAMP: TIMESTAMP,
}
_MAP_KEYS = frozenset({Kind.BOOLEAN, Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.STRING})

KEY_NAME = "ROWKEY"
VALUE_NAME = "ROWVAL"


def columns_of_schema(schema: ConnectSchema, side: Side, *, unwrapped: bool, keep_case: bool) -> tuple[Column, ...]:
    """Return the columns of a key or value schema.

    Names become upper case unless `keep_case`; fields of unsupported types are left out.

    Raises:
        RegistryError: no field is supported, or the schema is no record although not `unwrapped`.
    """
    role = Role.KEY if side is Side.KEY else Role.VALUE
    if unwrapped:
        sql_type = type_of(schema, keep_case)
        if sql_type is None:
            raise RegistryError(f"Unsupported type: {schema.kind.value}")
        return (Column(KEY_NAME if side is Side.KEY else VALUE_NAME, sql_type, role),)
    if schema.kind is not Kind.STRUCT:
        raise RegistryError(
            f"{side.value.capitalize()} schema from schema registry is not a record but {schema.kind.value}",
            hint="set WRAP_SINGLE_VALUE = false for a bare value",
        )
    columns = tuple(Column(field.name, field.type, role) for field in _fields(schema, keep_case))
    if not columns:
        raise RegistryError("Schema does not include any columns with types that ksqlDB supports.")
    return columns


def _fields(schema: ConnectSchema, keep_case: bool) -> tuple[Field, ...]:
    typed = ((field.name, type_of(field.schema, keep_case)) for field in schema.fields)
    return tuple(
        Field(name if keep_case else name.upper(), sql_type) for name, sql_type in typed if sql_type is not None
    )


def type_of(schema: ConnectSchema, keep_case: bool) -> SqlType | None:
    """Return the SQL type of a schema, or None if there is none."""
    match schema.kind:
        case Kind.DECIMAL:
            return Decimal(schema.precision, schema.scale)
        case Kind.ARRAY:
            item = type_of(schema.only_item, keep_case)
            return None if item is None else Array(item)
        case Kind.MAP:
            value = type_of(schema.only_item, keep_case)
            supported = schema.key is None or schema.key.kind in _MAP_KEYS
            return Map(STRING, value) if supported and value is not None else None
        case Kind.STRUCT:
            fields = _fields(schema, keep_case)
            return Struct(fields) if fields else None
        case kind:
            return _PRIMITIVE[kind]
