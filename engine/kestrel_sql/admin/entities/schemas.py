"""Columns and types as the API shows them."""

from __future__ import annotations

from typing import Any

from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import Array, Decimal, Map, Primitive, SqlType, Struct


def schema_info(sql_type: SqlType) -> dict[str, object]:
    """A type as a `SchemaInfo`."""
    fields: list[dict[str, Any]] | None = None
    member: dict[str, Any] | None = None
    parameters: dict[str, Any] = {}
    match sql_type:
        case Primitive(base):
            name = base.value
        case Decimal(precision, scale):
            name, parameters = "DECIMAL", {"precision": precision, "scale": scale}
        case Array(item):
            name, member = "ARRAY", schema_info(item)
        case Map(_, value):
            name, member = "MAP", schema_info(value)
        case Struct(members):
            name, fields = "STRUCT", [{"name": each.name, "schema": schema_info(each.type)} for each in members]
        case _:
            name = str(sql_type)
    info: dict[str, Any] = {"type": name, "fields": fields, "memberSchema": member}
    return {**info, "parameters": parameters} if parameters else info


def field_info(column: Column) -> dict[str, object]:
    """A column as a `FieldInfo`."""
    info: dict[str, Any] = {"name": column.name, "schema": schema_info(column.type)}
    match column.role:
        case Role.KEY:
            info["type"] = "KEY"
        case Role.HEADERS:
            info["type"] = "HEADER"
            if column.header_key is not None:
                info["headerKey"] = column.header_key
        case Role.VALUE:
            pass
    return info
