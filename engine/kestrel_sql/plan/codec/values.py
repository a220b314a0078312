"""The smallest parts of the plan codec: typed JSON values, each read strictly and told its JSON path."""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kestrel_sql.errors import NewerPlanError, PlanError, did_you_mean

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Wire:
    """How one kind of value is written in JSON.

    `decode` takes the JSON value and its path and raises PlanError; `encode` gives the JSON value.
    """

    decode: Callable[[Any, str], Any]
    encode: Callable[[Any], Any]


def child(path: str, key: str) -> str:
    """The path of the member `key` of the object at `path`."""
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z_@]\w*", key) else f"{path}[{json.dumps(shorten(key))}]"


def shorten(text: str) -> str:
    """Cut `text` to what an error message can hold."""
    return text if len(text) <= 80 else text[:77] + "..."


def refusal(expected: str, value: Any, path: str) -> PlanError:
    """The error for a value of the wrong JSON type."""
    return PlanError(f"{expected} is expected, not {_kind(value)}", path=path)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float() | decimal.Decimal():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a Python {type(value).__name__}"


def text(value: Any, path: str) -> str:
    """Read a text; half a surrogate pair is refused, since nothing can write it."""
    if not isinstance(value, str):
        raise refusal("a text", value, path)
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise PlanError("the text is not valid Unicode", path=path)
    return value


def boolean(value: Any, path: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise refusal("a boolean", value, path)
    return value


def whole(value: Any, path: str, limit: int = INT_MAX) -> int:
    """Read a whole number from 0 to `limit`; nothing in a plan is negative."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refusal("a whole number", value, path)
    if not 0 <= value <= limit:
        raise PlanError(f"the number is not between 0 and {limit}", path=path)
    return value


def array(value: Any, path: str) -> list[Any]:
    """Read a list, its items unread."""
    if not isinstance(value, list):
        raise refusal("a list", value, path)
    return value


def mapping(value: Any, path: str) -> dict[str, Any]:
    """Read an object, its members unread."""
    if not isinstance(value, dict):
        raise refusal("an object", value, path)
    for key in value:
        if not isinstance(key, str):
            raise refusal("a text as name of a field", key, path)
    return value


def only(document: dict[str, Any], known: Collection[str], path: str) -> None:
    """Refuse fields of `document` that are not in `known`."""
    for key in document:
        if key not in known:
            hint = did_you_mean(shorten(key), known)
            raise NewerPlanError("unknown field", path=child(path, key), part=f"the field {shorten(key)}", hint=hint)


def required(document: dict[str, Any], key: str, path: str) -> Any:
    """The value of a field that must be there and not null."""
    if key not in document:
        raise PlanError("required field is missing", path=child(path, key))
    if document[key] is None:
        raise PlanError("required field is null", path=child(path, key))
    return document[key]


def same(value: Any) -> Any:
    """Write a value that is JSON already."""
    return value


def optional(wire: Wire) -> Wire:
    """`wire`, or null for None."""
    return Wire(
        lambda value, path: None if value is None else wire.decode(value, path),
        lambda value: None if value is None else wire.encode(value),
    )


def sequence(wire: Wire) -> Wire:
    """A list of `wire` values for a tuple."""
    return Wire(
        lambda value, path: tuple(wire.decode(item, f"{path}[{i}]") for i, item in enumerate(array(value, path))),
        lambda values: [wire.encode(value) for value in values],
    )


def choice(enum: type[Enum]) -> Wire:
    """The values of `enum`, which are texts."""
    words = {str(member.value): member for member in enum}

    def decode(value: Any, path: str) -> Enum:
        word = text(value, path)
        if word not in words:
            message = f"{shorten(word)} is not one of {', '.join(words)}"
            raise NewerPlanError(message, path=path, part=f"the word {shorten(word)}")
        return words[word]

    return Wire(decode, lambda member: member.value)


TEXT = Wire(text, same)
BOOLEAN = Wire(boolean, same)
WHOLE = Wire(whole, same)
LONG = Wire(lambda value, path: whole(value, path, LONG_MAX), same)
