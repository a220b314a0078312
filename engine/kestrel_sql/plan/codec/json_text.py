"""Reads and writes JSON with exact numbers."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator
from typing import Any

from kestrel_sql.errors import PlanError
from kestrel_sql.plan.codec.values import shorten

MAX_DEPTH = 100
"""How deep a document may be nested; each step is one level, and real plans stay below 40."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def read_json(text: str) -> Any:
    """Parse JSON; fractions become Decimal.

    Raises:
        PlanError: not JSON, an object has a field twice, NaN or Infinity, or nested too deeply.
    """
    try:
        return json.loads(text, parse_float=_number, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise PlanError(f"the text is not JSON: {shorten(str(error))}") from error


def check_depth(document: object) -> None:
    """Check that a document is nested at most `MAX_DEPTH` deep, without recursion.

    Raises:
        PlanError: it is nested deeper.
    """
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise too_deep()


def too_deep() -> PlanError:
    """Make the error for a document that is nested too deeply."""
    return PlanError(f"the document is nested deeper than {MAX_DEPTH} levels")


def write_json(document: object) -> str:
    """Write JSON indented by two spaces; a Decimal becomes a number with all its digits, which `json` cannot write."""
    return "".join(_parts(document, "\n")) + "\n"


def write_line(document: object) -> str:
    """Write JSON as `write_json` does, without blanks and line breaks."""
    return "".join(_parts(document, ""))


def _parts(value: object, newline: str) -> Iterator[str]:
    inner, colon = (newline + "  ", ": ") if newline else ("", ":")
    match value:
        case decimal.Decimal():
            yield f"{value:f}"
        case dict() if value:
            for i, (key, member) in enumerate(value.items()):
                yield f"{',' if i else '{'}{inner}{_ENCODER.encode(key)}{colon}"
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


def _refuse_constant(constant: str) -> object:
    raise PlanError(f"{constant} is not a JSON number")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise PlanError(f"an object has the field {shorten(duplicate)} twice")
    return document
