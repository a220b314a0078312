"""JSON text to values and back, numbers exact."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator
from typing import Any

from kestrel_sql.errors import PlanError
from kestrel_sql.plan.codec.values import shorten

MAX_DEPTH = 100
"""Deepest nesting of a document; each step is one level, and real plans stay below 40."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def read_json(text: str) -> Any:
    """Read JSON with exact numbers; a field named twice is an error.

    Raises:
        PlanError: not JSON, or JSON that no plan can be.
    """
    try:
        return json.loads(text, parse_float=_number, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise PlanError(f"the text is not JSON: {shorten(str(error))}") from error


def check_depth(document: Any) -> None:
    """Refuse a document that is nested more than `MAX_DEPTH` deep, without recursion."""
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
    raise too_deep()


def too_deep() -> PlanError:
    """The error for a document that is nested too deeply."""
    return PlanError("the document is nested too deeply", hint=f"at most {MAX_DEPTH} levels are read")


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (inner for inner in value.values() if isinstance(inner, dict | list))
    elif isinstance(value, list):
        yield from (inner for inner in value if isinstance(inner, dict | list))


def write_json(document: Any) -> str:
    """Write JSON with an indent of two blanks; a Decimal is a number with all its digits, which `json` cannot write."""
    return "".join(_parts(document, "\n")) + "\n"


def _parts(value: Any, newline: str) -> Iterator[str]:
    inner = newline + "  "
    match value:
        case decimal.Decimal():
            yield f"{value:f}"
        case dict() if value:
            for i, (key, member) in enumerate(value.items()):
                yield f"{',' if i else '{'}{inner}{_ENCODER.encode(key)}: "
                yield from _parts(member, inner)
            yield newline + "}"
        case list() if value:
            for i, item in enumerate(value):
                yield f"{',' if i else '['}{inner}"
                yield from _parts(item, inner)
            yield newline + "]"
        case _:
            yield _ENCODER.encode(value)


def _number(digits: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(digits)
    except decimal.InvalidOperation:
        raise PlanError(f"the number {shorten(digits)} is out of range") from None


def _refuse_constant(word: str) -> Any:
    raise PlanError(f"{word} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanError(f"the field {shorten(twice)} is given twice in one object")
    return document
