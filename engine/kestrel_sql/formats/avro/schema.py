"""Converts Avro schemas to Connect schemas, and generates them from columns (rules F4.7)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.avro.defaults import default_of
from kestrel_sql.formats.avro.unions import AvroObject, AvroSchema, branch_name, branches_of, full_name, is_map_entry
from kestrel_sql.formats.connect.schema import MAX_DEPTH, MAX_PARTS, ConnectSchema, Kind, Missing, simple, struct_of
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct

DEFAULT_NAME = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
CONNECT_DATA = "org.apache.kafka.connect.data"

_SIMPLE = {
    "boolean": Kind.BOOLEAN,
    "int": Kind.INT32,
    "long": Kind.INT64,
    "float": Kind.FLOAT32,
    "double": Kind.FLOAT64,
    "string": Kind.STRING,
    "bytes": Kind.BYTES,
    "enum": Kind.STRING,
    "fixed": Kind.BYTES,
}
_LOGICAL = {("int", "date"): Kind.DATE, ("int", "time-millis"): Kind.TIME, ("long", "timestamp-millis"): Kind.TIMESTAMP}
_CONNECT_TYPES = {"int8": Kind.INT8, "int16": Kind.INT16}
_LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def resolve_names(schema: object, namespace: str = "", known: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """Replace every reference to a named type by its definition.

    Raises:
        FormatError: a type is unknown or recursive.
    """
    known = {} if known is None else known
    if depth > MAX_DEPTH:
        raise FormatError("Avro schema is recursive or too deeply nested")
    if isinstance(schema, list):
        return [resolve_names(branch, namespace, known, depth + 1) for branch in schema]
    if isinstance(schema, str):
        return _named(schema, namespace, known, depth)
    if not isinstance(schema, dict):
        raise FormatError(f"Not an Avro schema: {schema!r}")
    return _resolve_object(schema, namespace, known, depth)


def _named(name: str, namespace: str, known: dict[str, object], depth: int) -> object:
    if name in _SIMPLE or name == "null":
        return name
    target = known.get(f"{namespace}.{name}" if namespace and "." not in name else name, known.get(name))
    if target is None:
        raise FormatError(f"Avro schema refers to an unknown or recursive type: {name}")
    return target


def _resolve_object(schema: dict[str, Any], namespace: str, known: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, (dict, list)):
        return resolve_names(kind, namespace, known, depth + 1)
    if kind == "array":
        return {**schema, "items": resolve_names(schema["items"], namespace, known, depth + 1)}
    if kind == "map":
        return {**schema, "values": resolve_names(schema["values"], namespace, known, depth + 1)}
    if kind in ("record", "error"):
        name = full_name(schema, namespace)
        space = name.rpartition(".")[0]
        fields = [
            {**field, "type": resolve_names(field["type"], space, known, depth + 1)} for field in schema["fields"]
        ]
        known[name] = {**schema, "type": "record", "name": name, "fields": fields}
        return known[name]
    if kind in ("enum", "fixed"):
        name = full_name(schema, namespace)
        known[name] = {**schema, "name": name}
        return known[name]
    if isinstance(kind, str) and kind not in _SIMPLE and kind != "null":
        return _named(kind, namespace, known, depth)
    return schema


def parse_text(text: str, imports: Mapping[str, str]) -> AvroSchema:
    """Parse the text of an Avro schema, after the types it imports, and resolve its names.

    Raises:
        FormatError: the text is not an Avro schema.
    """
    known: dict[str, Any] = {}
    try:
        for imported in reversed(list(imports.values())):
            resolve_names(_load(imported), known=known)
        resolved: AvroSchema = resolve_names(_load(text), known=known)
        if _parts(resolved, {}) > MAX_PARTS:
            raise FormatError("Avro schema has too many parts")
        return resolved
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"Not an Avro schema: {error}") from error


def _parts(schema: AvroSchema, counted: dict[int, int]) -> int:
    """Return the number of parts of a schema; a definition counts for each use, and is traversed once."""
    if isinstance(schema, str):
        return 1
    if id(schema) not in counted:
        inner: Sequence[AvroSchema] = schema if isinstance(schema, list) else [*_inner(schema)]
        counted[id(schema)] = 1 + sum(_parts(part, counted) for part in inner)
    return counted[id(schema)]


def _inner(schema: AvroObject) -> Iterator[AvroSchema]:
    if "items" in schema:
        yield schema["items"]
    if "values" in schema:
        yield schema["values"]
    yield from (field["type"] for field in schema.get("fields", ()))


def _load(text: str) -> object:
    # The text of a primitive schema is int, with or without quotes.
    stripped = text.strip()
    return stripped if stripped in _SIMPLE else json.loads(stripped)


def to_connect(schema: AvroSchema) -> ConnectSchema:
    """Return the Connect form of a schema whose names are resolved.

    Raises:
        FormatError: Connect has no schema for a type.
    """
    if isinstance(schema, list):
        branches, optional = branches_of(schema)
        if len(branches) == 1:
            only = to_connect(branches[0])
            # Connect ignores the default of a field that may be null (rule F4.7.6).
            return replace(only, optional=True, default=Missing.MISSING) if optional else only
        union = struct_of((branch_name(branch), to_connect(branch).as_optional()) for branch in branches)
        return union.as_optional() if optional else union
    if isinstance(schema, str):
        return to_connect({"type": schema})
    connect = _typed(schema, schema["type"])
    return _with_default(connect, schema, schema.get("connect.default"))


def _typed(schema: AvroObject, kind: str) -> ConnectSchema:
    if kind == "array":
        return _array(schema["items"])
    if kind == "map":
        return ConnectSchema(Kind.MAP, key=simple(Kind.STRING), item=to_connect(schema["values"]))
    if kind == "record":
        return struct_of(
            (field["name"], _with_default(to_connect(field["type"]), field["type"], field.get("default")))
            for field in schema["fields"]
        )
    return _scalar(schema, kind)


def _scalar(schema: AvroObject, kind: str) -> ConnectSchema:
    logical = schema.get("logicalType")
    if kind in ("bytes", "fixed") and logical == "decimal":
        return ConnectSchema(
            Kind.DECIMAL, precision=int(schema.get("precision", 64)), scale=int(schema.get("scale", 0))
        )
    if (kind, logical) in _LOGICAL:
        return simple(_LOGICAL[kind, str(logical)])
    if kind == "int" and schema.get("connect.type") in _CONNECT_TYPES:
        return simple(_CONNECT_TYPES[schema["connect.type"]])
    if kind not in _SIMPLE:
        raise FormatError(f"Avro type without SQL counterpart: {kind}")
    return simple(_SIMPLE[kind])


def _array(item: AvroSchema) -> ConnectSchema:
    if is_map_entry(item):
        key, value = (to_connect(field["type"]) for field in item["fields"])
        return ConnectSchema(Kind.MAP, key=key, item=value)
    return ConnectSchema(Kind.ARRAY, item=to_connect(item))


def _with_default(connect: ConnectSchema, schema: AvroSchema, default: object) -> ConnectSchema:
    """Add a default, given as Avro's JSON for values of `schema`; null is none."""
    return connect if default is None or connect.optional else replace(connect, default=default_of(schema, default))


def field_name(column: str) -> str:
    """Return the Avro name of a column's field.

    Raises:
        FormatError: Avro does not allow the name.
    """
    name = column.replace(".", "_")
    if not _LEGAL_NAME.fullmatch(name):
        problem = "initial character" if not re.match(r"[A-Za-z_]", name) else "character in"
        raise FormatError(f"Schema is not compatible with Avro: Illegal {problem}: {name}")
    return name


def schema_text(columns: tuple[Column, ...], unwrapped: bool, name: str | None) -> str:
    """Write the schema of a sink; its record is called `name`, or has ksqlDB's default name.

    Raises:
        FormatError: Avro does not allow a name, or a MAP has keys other than STRING.
    """
    namespace, _, simple_name = (name or DEFAULT_NAME).rpartition(".")
    if unwrapped:
        return json.dumps(_type(columns[0].type, simple_name, namespace, root=True))
    fields = tuple((column.name, column.type) for column in columns)
    return json.dumps(_record(fields, simple_name, namespace, root=True))


def _qualified(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace else name


def _record(fields: tuple[tuple[str, SqlType], ...], name: str, namespace: str, *, root: bool) -> dict[str, object]:
    members = [
        {
            "name": field_name(each),
            "type": ["null", _type(sql_type, f"{name}_{field_name(each)}", namespace)],
            "default": None,
        }
        for each, sql_type in fields
    ]
    space = {"namespace": namespace} if root and namespace else {}
    return {"type": "record", "name": name, **space, "fields": members, "connect.name": _qualified(name, namespace)}


def _logical(plain: str, kind: str, logical: str, **more: object) -> dict[str, object]:
    return {
        "type": plain,
        **more,
        "connect.version": 1,
        "connect.name": f"{CONNECT_DATA}.{kind}",
        "logicalType": logical,
    }


def _type(sql_type: SqlType, name: str, namespace: str, *, root: bool = False) -> object:
    match sql_type:
        case Primitive(base):
            return _primitive(base)
        case Decimal(precision, scale):
            parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
            schema = _logical("bytes", "Decimal", "decimal", scale=scale, precision=precision)
            return {**schema, "connect.parameters": parameters}
        case Array(item):
            return {"type": "array", "items": ["null", _type(item, name, namespace)]}
        case Map(_, value):
            return _map(value, name, namespace, root=root)
        case Struct(fields):
            return _record(tuple((field.name, field.type) for field in fields), name, namespace, root=root)
        case _:
            raise FormatError(f"Avro has no type for {sql_type}")


def _primitive(base: Base) -> object:
    match base:
        case Base.DATE:
            return _logical("int", "Date", "date")
        case Base.TIME:
            return _logical("int", "Time", "time-millis")
        case Base.TIMESTAMP:
            return _logical("long", "Timestamp", "timestamp-millis")
        case _:
            return _PLAIN[base]


_PLAIN = {
    Base.BOOLEAN: "boolean",
    Base.INTEGER: "int",
    Base.BIGINT: "long",
    Base.DOUBLE: "double",
    Base.STRING: "string",
    Base.BYTES: "bytes",
}


def _map(value: SqlType, name: str, namespace: str, *, root: bool) -> dict[str, object]:
    space = {"namespace": namespace} if root and namespace else {}
    entry = {
        "type": "record",
        "name": name,
        **space,
        "fields": [
            {"name": "key", "type": ["null", "string"], "default": None},
            {"name": "value", "type": ["null", _type(value, f"{name}_MapValue", namespace)], "default": None},
        ],
        "connect.internal.type": "MapEntry",
    }
    return {"type": "array", "items": entry, "connect.name": _qualified(name, namespace)}
