"""Codec of structures as JSON objects, derived from the fields of the class."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import FieldInfo

from kestrel_sql.errors import NewerPlanError, PlanError
from kestrel_sql.plan.codec.checks import CHECKS
from kestrel_sql.plan.codec.durations import DURATION, WINDOW_EXPRESSION
from kestrel_sql.plan.codec.formats import FORMATS
from kestrel_sql.plan.codec.sql_text import CALL, COLUMN, EXPRESSION, KEY_EXPRESSIONS, SCHEMA, SELECT_ITEM, TYPE
from kestrel_sql.plan.codec.values import (
    BOOLEAN,
    LONG,
    STRING,
    WHOLE,
    Wire,
    choice,
    mapping,
    only,
    optional,
    required,
    sequence,
    shorten,
    string,
)
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1, DdlCommand
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.ingestion import IngestionSpec, MetadataColumn
from kestrel_sql.plan.step import Formats, SelectItem, Step, TimestampColumn, WindowInfo
from kestrel_sql.plan.steps.aggregates import WindowExpression
from kestrel_sql.plan.table import COMMANDS, STEPS, Tagged
from kestrel_sql.sql.nodes.expressions import Expression, FunctionCall
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import SqlType


class Member(msgspec.Struct, frozen=True):
    """One field of a class in JSON; reading accepts all `names`, writing uses the first."""

    field: str
    names: tuple[str, ...]
    wire: Wire
    required: bool
    default: Any


_ALIASES = {"keyColName": ("keyColName", "keyName")}
_IGNORED: Mapping[type, Mapping[str, Wire]] = {
    CreateStreamV1: {"keyField": optional(STRING)},
    CreateTableV1: {"keyField": optional(STRING)},
    QueryPlan: {"runtimeId": optional(STRING)},
}
"""Fields that are read and checked, but not kept."""

_FIXED: Mapping[type, Mapping[str, Any]] = {QueryPlan: {"runtimeId": None}}
"""Fields that are always written with the same value."""


def object_wire(cls: type) -> Wire:
    """Codec of the structure `cls` as a JSON object."""
    return Wire(lambda value, path: decode_object(cls, mapping(value, path), path), encode_object)


def tagged(table: Mapping[str, type]) -> Wire:
    """Codec of the classes in `table`; the field `@type` selects the class."""

    def decode(value: object, path: str) -> object:
        document = mapping(value, path)
        tag = string(required(document, "@type", path), f"{path}.@type")
        if tag not in table:
            message = f"{shorten(tag)} is not one of the known types: {', '.join(table)}"
            raise NewerPlanError(message, path=f"{path}.@type", part=f"the type {shorten(tag)}")
        return decode_object(table[tag], {key: member for key, member in document.items() if key != "@type"}, path)

    def encode(value: Tagged) -> dict[str, object]:
        return {"@type": value.tag, **encode_object(value)}

    return Wire(decode, encode)


def decode_object(cls: type, document: dict[str, object], path: str) -> object:
    """Read the fields of `cls` from `document` and run the checks of the class.

    Raises:
        PlanError: a field is unknown, missing, null or of the wrong type, or a check fails.
    """
    members = members_of(cls)
    ignored = _IGNORED.get(cls, {})
    only(document, [*(name for member in members for name in member.names), *ignored], path)
    values = {member.field: _decode_member(member, document, path) for member in members}
    for name, wire in ignored.items():
        wire.decode(document.get(name), f"{path}.{name}")
    decoded = cls(**values)
    if cls in CHECKS:
        CHECKS[cls](decoded, path)
    return decoded


def _decode_member(member: Member, document: dict[str, object], path: str) -> object:
    present = [name for name in member.names if document.get(name) is not None]
    if len(present) > 1:
        raise PlanError(f"this field is an older name of {present[0]}, which is set, too", path=f"{path}.{present[1]}")
    if present:
        return member.wire.decode(document[present[0]], f"{path}.{present[0]}")
    if member.required:
        required(document, member.names[0], path)
    return member.default


def encode_object(value: object) -> dict[str, object]:
    """Write the fields of a structure as JSON values; None becomes null."""
    cls: Any = type(value)
    document: dict[str, Any] = {}
    for member in members_of(cls):
        content = getattr(value, member.field)
        document[member.names[0]] = None if content is None else member.wire.encode(content)
    document.update(_FIXED.get(cls, {}))
    return document


@functools.cache
def members_of(cls: type) -> tuple[Member, ...]:
    """The JSON members of the structure `cls`, in field order."""
    hints = get_type_hints(cls)
    return tuple(_member(field, hints[field.name]) for field in msgspec.structs.fields(cls))


def _member(field: FieldInfo, annotation: object) -> Member:
    if field.name in _BY_NAME:
        name, wire = _BY_NAME[field.name]
        return Member(field.name, (name,), wire, True, None)
    name = json_name(field)
    bare, nullable = _without_none(annotation)
    default = None if field.default is msgspec.NODEFAULT else field.default
    is_required = field.default is msgspec.NODEFAULT and not nullable
    return Member(field.name, _ALIASES.get(name, (name,)), _wire(field.name, bare), is_required, default)


def ignored_fields(cls: type) -> tuple[str, ...]:
    """The JSON fields of the structure `cls` that are read and checked, but not kept."""
    return tuple(_IGNORED.get(cls, {}))


def json_name(field: FieldInfo) -> str:
    """Return the name of a field in JSON."""
    return field.encode_name if field.encode_name != field.name else camel_case(field.name)


def camel_case(name: str) -> str:
    """Turn a Python field name into its JSON name."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _without_none(annotation: object) -> tuple[object, bool]:
    if get_origin(annotation) not in (Union, types.UnionType) or type(None) not in get_args(annotation):
        return annotation, False
    return functools.reduce(operator.or_, (arg for arg in get_args(annotation) if arg is not type(None))), True


def _wire(name: str, annotation: object) -> Wire:
    if name.endswith("_ms"):
        return DURATION
    if name == "start_offsets":
        return sequence(LONG)
    if name == "key_expression" and get_origin(annotation) is tuple:
        return KEY_EXPRESSIONS
    if get_origin(annotation) is tuple:
        return sequence(_wire(name, get_args(annotation)[0]))
    if annotation in _BY_TYPE:
        return _BY_TYPE[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return choice(annotation)
    raise TypeError(f"the field {name} of type {annotation} has no JSON form")


def _single(key: str) -> Wire:
    """Codec of a string that is written as an object with `key` as its only field."""

    def decode(value: object, path: str) -> str:
        document = mapping(value, path)
        only(document, (key,), path)
        return string(required(document, key, path), f"{path}.{key}")

    return Wire(decode, lambda value: {key: value})


_BY_NAME: Mapping[str, tuple[str, Wire]] = {
    "query_context": ("properties", _single("queryContext")),
    "refinement_info": ("refinementInfo", _single("outputRefinement")),
}
"""Fields that are written as an object with one field."""

STEP = tagged(STEPS)
COMMAND = tagged(COMMANDS)

_BY_TYPE: Mapping[Any, Wire] = {
    str: STRING,
    bool: BOOLEAN,
    int: WHOLE,
    Expression: EXPRESSION,
    FunctionCall: CALL,
    SelectItem: SELECT_ITEM,
    Schema: SCHEMA,
    Column: COLUMN,
    SqlType: TYPE,
    Formats: FORMATS,
    IngestionSpec: object_wire(IngestionSpec),
    MetadataColumn: object_wire(MetadataColumn),
    TimestampColumn: object_wire(TimestampColumn),
    WindowInfo: object_wire(WindowInfo),
    WindowExpression: WINDOW_EXPRESSION,
    Step: STEP,
    DdlCommand: COMMAND,
    QueryPlan: object_wire(QueryPlan),
}
