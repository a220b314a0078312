"""Infers columns from Connect schemas, for CREATE statements without columns (rules F8)."""

from __future__ import annotations

from kestrel_sql.errors import RegistryError
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind
from kestrel_sql.formats.serde import Side
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column, Role

_PRIMITIVE: dict[Kind, t.SqlType] = {
    Kind.BOOLEAN: t.BOOLEAN,
    Kind.INT8: t.INTEGER,
    Kind.INT16: t.INTEGER,
    Kind.INT32: t.INTEGER,
    Kind.INT64: t.BIGINT,
    Kind.FLOAT32: t.DOUBLE,
    Kind.FLOAT64: t.DOUBLE,
    Kind.STRING: t.STRING,
    Kind.BYTES: t.BYTES,
    Kind.DATE: t.DATE,
    Kind.TIME: t.TIME,
    Kind.TIMESTAMP: t.TIMESTAMP,
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


def _fields(schema: ConnectSchema, keep_case: bool) -> tuple[t.Field, ...]:
    typed = ((field.name, type_of(field.schema, keep_case)) for field in schema.fields)
    return tuple(
        t.Field(name if keep_case else name.upper(), sql_type) for name, sql_type in typed if sql_type is not None
    )


def type_of(schema: ConnectSchema, keep_case: bool) -> t.SqlType | None:
    """Return the SQL type of a schema, or None if there is none."""
    match schema.kind:
        case Kind.DECIMAL:
            return t.Decimal(schema.precision, schema.scale)
        case Kind.ARRAY:
            item = type_of(schema.only_item, keep_case)
            return None if item is None else t.Array(item)
        case Kind.MAP:
            value = type_of(schema.only_item, keep_case)
            supported = schema.key is None or schema.key.kind in _MAP_KEYS
            return t.Map(t.STRING, value) if supported and value is not None else None
        case Kind.STRUCT:
            fields = _fields(schema, keep_case)
            return t.Struct(fields) if fields else None
        case kind:
            return _PRIMITIVE[kind]
