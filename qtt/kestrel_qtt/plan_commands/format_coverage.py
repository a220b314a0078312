"""The facts of the plan format that a plan uses: step versions, present or absent fields, values, and encodings.

A fact is a string such as `streamSinkV1`, `streamSinkV1.timestampColumn`, `streamSinkV1.timestampColumn absent`,
`windowInfo.type=SESSION` or `streamSelectKeyV2.keyExpression as text`. A null field is absent. The store of plans must
hold every fact that the codec can read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from kestrel_sql.plan.codec.checks import JOIN_TYPES, PSEUDO_COLUMN_VERSIONS
from kestrel_sql.plan.codec.objects import ignored_fields, members_of
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.plan.step import Formats, SelectItem, SerdeFeature, Step, WindowType
from kestrel_sql.plan.steps.aggregates import WindowExpression
from kestrel_sql.plan.table import COMMANDS, STEPS
from kestrel_sql.sql.nodes.expressions import Node
from kestrel_sql.sql.nodes.statements import Emit
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import SqlType
from kestrel_sql.types.time_units import UNIT_MS


class FieldFacts(msgspec.Struct, frozen=True):
    """The facts of a field: whether it is optional, its values, and its encodings by JSON type."""

    optional: bool
    values: tuple[str, ...] = ()
    encodings: Mapping[Any, str] | None = None


Shape = Mapping[str, FieldFacts]

_FORMATS = ("formats", "internalFormats", "leftInternalFormats", "rightInternalFormats", "stateStoreFormats")
_SPANS = ("size", "advanceBy", "gap", "retention", "gracePeriod")
_DURATIONS = ("size", "beforeMillis", "afterMillis", "graceMillis")
_AS_TEXT_OR_NUMBER: Mapping[type, str] = {str: "text", object: "number"}
_AS_TEXT_OR_LIST: Mapping[type, str] = {str: "text", list: "list"}
_AS_TEXT_OR_OBJECT: Mapping[type, str] = {str: "text", dict: "object"}
_OWN_FORM = (Step, Formats, WindowExpression, SelectItem, Node, Schema, Column, *get_args(SqlType))
_FEATURES = tuple(feature.value for feature in SerdeFeature)
_EMIT = tuple(emit.value for emit in Emit)


def _enum_values(annotation: object) -> tuple[str, ...]:
    kinds = [annotation, *get_args(annotation)]
    if bool in kinds:
        return ("true", "false")
    return next(
        (
            tuple(str(member.value) for member in kind)
            for kind in kinds
            if isinstance(kind, type) and issubclass(kind, Enum)
        ),
        (),
    )


def _shape_of(cls: type) -> Shape:
    """Return the shape of a class whose JSON follows from its fields."""
    hints = get_type_hints(cls)
    shape: dict[str, FieldFacts] = {}
    for member in members_of(cls):
        annotation = hints[member.field]
        about = FieldFacts(
            not member.required,
            _narrowed(cls, member.names[0]) or _enum_values(annotation),
            _encodings(member.names[0], annotation),
        )
        shape |= dict.fromkeys(member.names, about)
    return shape | dict.fromkeys(ignored_fields(cls), FieldFacts(True))


def _narrowed(cls: type, name: str) -> tuple[str, ...]:
    """Return the values that a class accepts where they do not follow from the type of its field."""
    if name == "joinType":
        return tuple(kind.value for kind in JOIN_TYPES.get(cls, ()))
    return tuple(map(str, PSEUDO_COLUMN_VERSIONS[cls])) if name == "pseudoColumnVersion" else ()


def _encodings(name: str, annotation: object) -> Mapping[type, str] | None:
    if name in _DURATIONS:
        return _AS_TEXT_OR_NUMBER
    if name == "keyExpression" and get_origin(annotation) is tuple:
        return _AS_TEXT_OR_LIST
    return _AS_TEXT_OR_OBJECT if name == "windowExpression" else None


@functools.cache
def shapes() -> Mapping[str, Shape]:
    """Return the shapes of all objects by name: the tag, or the field that holds an untagged object."""
    tagged: dict[str, type[Any]] = {**STEPS, **COMMANDS, StatementPlan.tag: StatementPlan}
    classes = tagged | dict(part for cls in tagged.values() for part in _parts(cls))
    features = FieldFacts(True, _FEATURES)
    lengths = dict.fromkeys(_SPANS, FieldFacts(True))
    format_ = {"format": FieldFacts(False), "properties": FieldFacts(True)}
    return {name: _shape_of(cls) for name, cls in classes.items()} | {
        "formats": {
            "keyFeatures": features,
            "valueFeatures": features,
            "options": FieldFacts(True, ("WRAP_SINGLE_VALUES", "UNWRAP_SINGLE_VALUES")),
        },
        "keyFormat": format_,
        "valueFormat": format_,
        "windowExpression": {
            "windowType": FieldFacts(False, tuple(kind.value for kind in WindowType)),
            "emitStrategy": FieldFacts(True, _EMIT),
            **lengths,
        },
        "timeSpan": {"timeUnit": FieldFacts(False, tuple(UNIT_MS)), "value": FieldFacts(False)},
    }


def _parts(cls: type) -> Iterator[tuple[str, type]]:
    """Yield the fields below `cls` that hold untagged objects, with their classes.

    Classes with a codec of their own are left out.
    """
    hints = get_type_hints(cls)
    for member in members_of(cls):
        for kind in (hints[member.field], *get_args(hints[member.field])):
            if _is_part(kind):
                yield member.names[0], kind
                yield from _parts(kind)


def _is_part(kind: object) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and not issubclass(kind, _OWN_FORM)
        and not hasattr(kind, "tag")
    )


def facts_of(document: object) -> frozenset[str]:
    """Return the facts of a parsed `plan.json`, or of a tagged part of it."""
    return frozenset(_of_value(document, ""))


def _of_value(value: object, field: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _of_value(item, field)
    elif isinstance(value, dict):
        name = value.get("@type", _object_name(field))
        if name in shapes():
            yield from _of_object(value, name, shapes()[name])
        for field, member in value.items():
            yield from _of_value(member, f"{name}.{field}" if name == "windowExpression" else field)


def _object_name(field: str) -> str:
    """Return the name of an untagged object, given the field that holds it."""
    if field in _FORMATS:
        return "formats"
    return "timeSpan" if field.startswith("windowExpression.") else field


def _of_object(value: Mapping[str, object], name: str, shape: Shape) -> Iterator[str]:
    yield name
    for field, about in shape.items():
        content = value.get(field)
        if content is None:
            if about.optional:
                yield f"{name}.{field} absent"
            continue
        yield f"{name}.{field}"
        yield from (f"{name}.{field}={value}" for value in _spelled(content) if value in about.values)
        if about.encodings:
            kind = next((kind for kind in about.encodings if isinstance(content, kind)), object)
            yield f"{name}.{field} as {about.encodings[kind]}"


def _spelled(content: object) -> Sequence[str]:
    """Return the values of a content as strings; a list gives those of its items."""
    items = content if isinstance(content, list) else [content]
    return [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
