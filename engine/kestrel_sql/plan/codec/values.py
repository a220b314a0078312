"""Codecs of typed JSON values, the building blocks of the plan codec."""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Collection
from enum import Enum
from typing import Any

import msgspec

from kestrel_sql.errors import NewerPlanError, PlanError, did_you_mean

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Wire(msgspec.Struct, frozen=True):
    """A codec of one type of value.

    `decode(json_value, path)` returns the value, or raises PlanError with the path; `encode(value)` returns JSON.
    """

    decode: Callable[[Any, str], Any]
    encode: Callable[[Any], Any]


def child(path: str, key: str) -> str:
    """The path of the member `key` of the object at `path`."""
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z_@]\w*", key) else f"{path}[{json.dumps(shorten(key))}]"


def shorten(text: str) -> str:
    """Cut `text` to 80 characters for an error message."""
    return text if len(text) <= 80 else text[:77] + "..."


def wrong_type(expected: str, value: object, path: str) -> PlanError:
    """Make the error for a value of the wrong JSON type."""
    return PlanError(f"expected {expected}, got {_kind(value)}", path=path)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float() | decimal.Decimal():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a Python {type(value).__name__}"


def string(value: object, path: str) -> str:
    """Read a string; half a surrogate pair is an error, since no encoding can write it."""
    if not isinstance(value, str):
        raise wrong_type("a string", value, path)
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise PlanError("the string is not valid Unicode", path=path)
    return value


def boolean(value: object, path: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise wrong_type("a boolean", value, path)
    return value


def whole(value: object, path: str, limit: int = INT_MAX) -> int:
    """Read an integer from 0 to `limit`; no number in a plan is negative."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type("an integer", value, path)
    if not 0 <= value <= limit:
        raise PlanError(f"expected an integer between 0 and {limit}", path=path)
    return value


def array(value: object, path: str) -> list[object]:
    """Read a list without decoding its items."""
    if not isinstance(value, list):
        raise wrong_type("a list", value, path)
    return value


def mapping(value: object, path: str) -> dict[str, object]:
    """Read an object without decoding its members."""
    if not isinstance(value, dict):
        raise wrong_type("an object", value, path)
    for key in value:
        if not isinstance(key, str):
            raise wrong_type("a string as field name", key, path)
    return value


def only(document: dict[str, object], known: Collection[str], path: str) -> None:
    """Check that all fields of `document` are in `known`.

    Raises:
        NewerPlanError: one is not.
    """
    for key in document:
        if key not in known:
            hint = did_you_mean(shorten(key), known)
            raise NewerPlanError("unknown field", path=child(path, key), part=f"the field {shorten(key)}", hint=hint)


def required(document: dict[str, object], key: str, path: str) -> object:
    """Return the value of a field that must be set and not null."""
    if key not in document:
        raise PlanError("required field is missing", path=child(path, key))
    if document[key] is None:
        raise PlanError("required field is null", path=child(path, key))
    return document[key]


def same(value: object) -> object:
    """Return a value that is JSON already."""
    return value


def optional(wire: Wire) -> Wire:
    """Codec of a `wire` value or None, which is null."""
    return Wire(
        lambda value, path: None if value is None else wire.decode(value, path),
        lambda value: None if value is None else wire.encode(value),
    )


def sequence(wire: Wire) -> Wire:
    """Codec of a tuple of `wire` values as a list."""
    return Wire(
        lambda value, path: tuple(wire.decode(item, f"{path}[{i}]") for i, item in enumerate(array(value, path))),
        lambda values: [wire.encode(value) for value in values],
    )


def choice(enum: type[Enum]) -> Wire:
    """Codec of the members of `enum`, whose values are strings."""
    members = {str(member.value): member for member in enum}

    def decode(value: object, path: str) -> Enum:
        name = string(value, path)
        if name not in members:
            message = f"{shorten(name)} is not one of {', '.join(members)}"
            raise NewerPlanError(message, path=path, part=f"the value {shorten(name)}")
        return members[name]

    return Wire(decode, lambda member: member.value)


STRING = Wire(string, same)
BOOLEAN = Wire(boolean, same)
WHOLE = Wire(whole, same)
LONG = Wire(lambda value, path: whole(value, path, LONG_MAX), same)
