"""Converts defaults of Avro schemas, which are JSON of Avro's own form, to Connect values (rule F4.7.6)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.avro.unions import AvroBranch, AvroObject, AvroSchema, branch_name, branches_of, is_map_entry
from kestrel_sql.java.numbers import EXACT, INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, parse_double

_T = TypeVar("_T")


def default_of(schema: AvroSchema, value: object) -> object:
    """Return the Connect value of a default; `schema` has its names resolved.

    Raises:
        FormatError: it is no value of the schema.
    """
    if isinstance(schema, list):
        return _of_union(schema, value)
    if isinstance(schema, str):
        schema = {"type": schema}
    read = _NESTED.get(schema["type"])
    if read is not None:
        return read(schema, value)
    try:
        return _scalar(schema, value)
    except (TypeError, ValueError, KeyError) as error:
        raise FormatError(f"Invalid default for {schema['type']}: {str(value)[:100]!r}") from error


def _of_union(union: list[AvroBranch], value: object) -> object:
    """A default inside another is one of the union's first branch."""
    branches, optional = branches_of(union)
    if not branches or (optional and union[0] != branches[0]):
        return None
    if len(branches) == 1:
        return default_of(branches[0], value)
    members: dict[str, object] = {branch_name(branch): None for branch in branches}
    for branch in branches:
        try:
            members[branch_name(branch)] = default_of(branch, value)
        except FormatError:
            continue
        return members
    raise FormatError(f"Invalid default for a union: {str(value)[:100]!r}")


def _array(schema: AvroObject, value: object) -> object:
    items, own = schema["items"], _required(list, value)
    if not is_map_entry(items):
        return [default_of(items, item) for item in own]
    entries = [_record(items, item) for item in own]
    return {entry["key"]: entry["value"] for entry in entries}


def _map(schema: AvroObject, value: object) -> object:
    return {key: default_of(schema["values"], item) for key, item in _required(dict, value).items()}


def _record(schema: AvroObject, value: object) -> dict[str, object]:
    members, own = dict[str, object](), _required(dict, value)
    for field in schema["fields"]:
        name = field["name"]
        if name not in own and "default" not in field:
            raise FormatError(f"Invalid default for a record: it lacks the field {name}")
        members[name] = default_of(field["type"], own[name] if name in own else field["default"])
    return members


_NESTED: dict[str, Callable[[AvroObject, object], object]] = {"array": _array, "map": _map, "record": _record}


def _required(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise FormatError(f"Invalid default for an {'array' if kind is list else 'object'}: {str(value)[:100]!r}")
    return value


def _scalar(schema: AvroObject, value: Any) -> object:
    match schema["type"]:
        case "null":
            return None
        case "boolean" if type(value) is bool:
            return value
        case "int" if type(value) is int and INT_MIN <= value <= INT_MAX:
            return value
        case "long" if type(value) is int and LONG_MIN <= value <= LONG_MAX:
            return value
        case "float" | "double" if type(value) is not bool:
            return parse_double(value) if isinstance(value, str) else float(value)
        case "string" | "enum" if isinstance(value, str):
            return value
        case "bytes" | "fixed" if isinstance(value, str):
            return _binary(schema, value)
        case _:
            raise ValueError


def _binary(schema: AvroObject, text: str) -> object:
    """Each character is a byte; Java writes `?` for those beyond."""
    data = text.encode("latin-1", "replace")
    if schema["type"] == "fixed" and len(data) != schema["size"]:
        raise ValueError
    if schema.get("logicalType") != "decimal":
        return data
    if not data:
        raise ValueError
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-int(schema.get("scale", 0)), EXACT)
