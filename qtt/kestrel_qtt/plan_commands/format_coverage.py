"""What a plan uses of the plan format: step versions, fields that are there or absent, words, and encodings.

A fact is a text such as `streamSinkV1`, `streamSinkV1.timestampColumn`, `streamSinkV1.timestampColumn absent`, `windowInfo.type=SESSION`
or `streamSelectKeyV2.keyExpression as text`. Null is absent. The store of plans has to hold every fact that the codec can read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

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


@dataclass(frozen=True, slots=True)
class _Field:
    """What can be said of a field: its words, and its encodings by the JSON type of each."""

    optional: bool
    values: tuple[str, ...] = ()
    encodings: Mapping[Any, str] | None = None


_Shape = Mapping[str, _Field]

_FORMATS = ("formats", "internalFormats", "leftInternalFormats", "rightInternalFormats", "stateStoreFormats")
_SPANS = ("size", "advanceBy", "gap", "retention", "gracePeriod")
_DURATIONS = ("size", "beforeMillis", "afterMillis", "graceMillis")
_AS_TEXT_OR_NUMBER = {str: "text", object: "number"}
_AS_TEXT_OR_LIST = {str: "text", list: "list"}
_AS_TEXT_OR_OBJECT = {str: "text", dict: "object"}
_OWN_FORM = (Step, Formats, WindowExpression, SelectItem, Node, Schema, Column, *get_args(SqlType))
_FEATURES = tuple(feature.value for feature in SerdeFeature)
_EMIT = tuple(emit.value for emit in Emit)


def _words(annotation: Any) -> tuple[str, ...]:
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


def _shape_of(cls: Any) -> _Shape:
    """The shape of a class whose JSON follows from its fields."""
    hints = get_type_hints(cls)
    shape: dict[str, _Field] = {}
    for member in members_of(cls):
        annotation = hints[member.field]
        about = _Field(
            not member.required,
            _narrowed(cls, member.names[0]) or _words(annotation),
            _encodings(member.names[0], annotation),
        )
        shape |= dict.fromkeys(member.names, about)
    return shape | dict.fromkeys(ignored_fields(cls), _Field(True))


def _narrowed(cls: Any, name: str) -> tuple[str, ...]:
    """The words that a class accepts, where they do not follow from the type of its field."""
    if name == "joinType":
        return tuple(kind.value for kind in JOIN_TYPES.get(cls, ()))
    return tuple(map(str, PSEUDO_COLUMN_VERSIONS[cls])) if name == "pseudoColumnVersion" else ()


def _encodings(name: str, annotation: Any) -> Mapping[Any, str] | None:
    if name in _DURATIONS:
        return _AS_TEXT_OR_NUMBER
    if name == "keyExpression" and get_origin(annotation) is tuple:
        return _AS_TEXT_OR_LIST
    return _AS_TEXT_OR_OBJECT if name == "windowExpression" else None


@functools.cache
def _shapes() -> Mapping[str, _Shape]:
    """The shapes of all objects by their name: a tag, or the field in which an untagged object stands."""
    tagged: dict[str, type[Any]] = {**STEPS, **COMMANDS, StatementPlan.tag: StatementPlan}
    classes = tagged | dict(part for cls in tagged.values() for part in _parts(cls))
    features = _Field(True, _FEATURES)
    lengths = dict.fromkeys(_SPANS, _Field(True))
    format_ = {"format": _Field(False), "properties": _Field(True)}
    return {name: _shape_of(cls) for name, cls in classes.items()} | {
        "formats": {
            "keyFeatures": features,
            "valueFeatures": features,
            "options": _Field(True, ("WRAP_SINGLE_VALUES", "UNWRAP_SINGLE_VALUES")),
        },
        "keyFormat": format_,
        "valueFormat": format_,
        "windowExpression": {
            "windowType": _Field(False, tuple(kind.value for kind in WindowType)),
            "emitStrategy": _Field(True, _EMIT),
            **lengths,
        },
        "timeSpan": {"timeUnit": _Field(False, tuple(UNIT_MS)), "value": _Field(False)},
    }


def _parts(cls: Any) -> Iterator[tuple[str, type[Any]]]:
    """The classes of the untagged objects below `cls`, by the field in which they stand, but for those with a form of their own."""
    hints = get_type_hints(cls)
    for member in members_of(cls):
        for kind in (hints[member.field], *get_args(hints[member.field])):
            if _is_part(kind):
                yield member.names[0], kind
                yield from _parts(kind)


def _is_part(kind: Any) -> bool:
    return (
        isinstance(kind, type) and is_dataclass(kind) and not issubclass(kind, _OWN_FORM) and not hasattr(kind, "tag")
    )


def known_facts() -> frozenset[str]:
    """Every fact that the codec can read."""
    return frozenset(fact for name, shape in _shapes().items() for fact in _known(name, shape))


def _known(name: str, shape: _Shape) -> Iterator[str]:
    yield name
    for field, about in shape.items():
        yield f"{name}.{field}"
        if about.optional:
            yield f"{name}.{field} absent"
        yield from (f"{name}.{field}={word}" for word in about.values)
        yield from (f"{name}.{field} as {word}" for word in (about.encodings or {}).values())


def facts_of(document: Any) -> frozenset[str]:
    """The facts of the content of a `plan.json`, or of a part of it that has a tag."""
    return frozenset(_of_value(document, ""))


def _of_value(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _of_value(item, place)
    elif isinstance(value, dict):
        name = value.get("@type", _object_name(place))
        if name in _shapes():
            yield from _of_object(value, name, _shapes()[name])
        for field, member in value.items():
            yield from _of_value(member, f"{name}.{field}" if name == "windowExpression" else field)


def _object_name(place: str) -> str:
    """What an untagged object is, by the field in which it stands."""
    if place in _FORMATS:
        return "formats"
    return "timeSpan" if place.startswith("windowExpression.") else place


def _of_object(value: Mapping[str, Any], name: str, shape: _Shape) -> Iterator[str]:
    yield name
    for field, about in shape.items():
        content = value.get(field)
        if content is None:
            if about.optional:
                yield f"{name}.{field} absent"
            continue
        yield f"{name}.{field}"
        yield from (f"{name}.{field}={word}" for word in _spelled(content) if word in about.values)
        if about.encodings:
            kind = next((kind for kind in about.encodings if isinstance(content, kind)), object)
            yield f"{name}.{field} as {about.encodings[kind]}"


def _spelled(content: Any) -> Sequence[str]:
    """The words of a content: a list has those of its items."""
    items = content if isinstance(content, list) else [content]
    return [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
