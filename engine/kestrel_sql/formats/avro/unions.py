"""Names of Avro types, branches of unions, and maps that Connect writes as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypedDict, TypeGuard


class AvroField(TypedDict, total=False):
    """A field of a record."""

    name: str
    type: AvroSchema
    default: object


AvroObject = TypedDict(
    "AvroObject",
    {
        "type": str,
        "items": "AvroSchema",
        "values": "AvroSchema",
        "fields": list[AvroField],
        "name": str,
        "size": int,
        "logicalType": str,
        "precision": int,
        "scale": int,
        "connect.type": str,
        "connect.default": object,
    },
    total=False,
)
"""A type of which more than its name is said, as far as we read it."""

AvroBranch: TypeAlias = str | AvroObject
AvroSchema: TypeAlias = AvroBranch | list[AvroBranch]
"""A schema whose names are resolved; a list is a union."""

_MAP_ENTRY = "io.confluent.connect.avro.MapEntry"


def full_name(schema: Mapping[str, object], namespace: str) -> str:
    """Return the full name of a named type defined inside `namespace`."""
    name = str(schema["name"])
    space = schema.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def is_map_entry(schema: object) -> TypeGuard[AvroObject]:
    """Whether an Avro array of this item is Connect's representation of a map."""
    return (
        isinstance(schema, dict)
        and schema.get("type") == "record"
        and (schema.get("connect.internal.type") == "MapEntry" or full_name(schema, "") == _MAP_ENTRY)
        and [field["name"] for field in schema["fields"]] == ["key", "value"]
    )


def branches_of(union: list[AvroBranch]) -> tuple[list[AvroBranch], bool]:
    """Return the branches of a union except null, and whether null is one of them."""
    others = [branch for branch in union if branch != "null" and branch != {"type": "null"}]
    return others, len(others) < len(union)


def branch_name(branch: AvroBranch) -> str:
    """Return the name of a union's branch in the STRUCT by which Connect represents the union."""
    if isinstance(branch, str):
        return branch.rpartition(".")[2]
    named = branch.get("type") in ("record", "enum", "fixed")
    return str(branch["name"]).rpartition(".")[2] if named else str(branch["type"])
