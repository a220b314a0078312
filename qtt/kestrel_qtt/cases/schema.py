"""Check case files against the closed schema, and report each mistake in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import msgspec

for _needed in ("fastjsonschema", "jsonschema"):
    if find_spec(_needed) is None:
        raise ModuleNotFoundError(f"the harness needs {_needed}", name=_needed)


class SchemaProblem(msgspec.Struct, frozen=True):
    """One mistake: the path of the value, and a sentence that starts with that path."""

    path: tuple[str | int, ...]
    message: str


def schema_text() -> str:
    """The JSON schema of case files."""
    return files("kestrel_qtt.cases").joinpath("case.schema.json").read_text(encoding="utf-8")


def file_problems(head: Mapping[str, object], *, has_tests: bool) -> list[SchemaProblem]:
    """Check the members of a file other than its cases."""
    members = {**head, **({"tests": [{}]} if has_tests else {})}
    return _checked(members, "file")


def case_problems(members: Mapping[str, object]) -> list[SchemaProblem]:
    """Check the members of a case; the mistakes come in the order of their paths."""
    return _checked(members, "case")


@cache
def _schema() -> dict[str, object]:
    schema: dict[str, Any] = json.loads(schema_text())
    return schema


@cache
def _schema_of(what: str) -> dict[str, object]:
    """The schema of a `file`, whose cases are checked by themselves, or of a `case`."""
    schema = _schema()
    if what == "case":
        return {"$ref": "#/$defs/case", "$defs": schema["$defs"]}
    members: Any = schema["properties"]
    return {**schema, "properties": {**members, "tests": {"type": "array", "minItems": 1}}}


@cache
def _validator(what: str) -> Callable[[object], object]:
    import fastjsonschema

    # Our schema uses only what both drafts have; fastjsonschema knows the older one.
    schema = {**_schema_of(what), "$schema": "http://json-schema.org/draft-07/schema#"}
    validate: Callable[[Any], Any] = fastjsonschema.compile(schema, use_default=False, use_formats=False)
    return validate


def is_valid(members: Mapping[str, object], what: str) -> bool:
    """Whether members fulfil the schema of a `file` or of a `case`."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator(what)(members)
    except JsonSchemaValueException:
        return False
    return True


def _checked(members: Mapping[str, object], what: str) -> list[SchemaProblem]:
    if is_valid(members, what):
        return []
    # Says all that is wrong, and takes a sixth of a second to import and six times as long for a case.
    from jsonschema import Draft202012Validator

    return list(_problems(Draft202012Validator(_schema_of(what)).iter_errors(members)))


def _problems(errors: Iterable[Any]) -> Iterator[SchemaProblem]:
    """Return a sentence for each mistake; a misspelt name, which is unknown and missing, is reported once."""
    known = sorted(errors, key=lambda e: ([str(part) for part in e.absolute_path], e.validator == "required"))
    meant: set[tuple[str | int, ...]] = set()
    for error in known:
        path = tuple(error.absolute_path)
        if error.validator == "additionalProperties":
            fields = sorted(error.schema.get("properties", {})) if isinstance(error.schema, Mapping) else []
            for name in (each for each in _names(error.instance) if each not in fields):
                close = _close(name, fields)
                meant.add((*path, close or ""))
                hint = f"did you mean `{close}`?" if close else f"the fields are {', '.join(fields)}"
                yield SchemaProblem((*path, name), f"{_where(path)}`{name}` is not a field; {hint}")
        elif error.validator == "required":
            # A misspelt name is an unknown field already.
            gone = next(name for name in _names(error.validator_value) if f"'{name}'" in error.message)
            if (*path, gone) not in meant:
                yield SchemaProblem(path, f"{_where(path)}the field `{gone}` is missing")
        else:
            yield SchemaProblem(path, f"{_where(path)}{error.message}")


def _names(value: object) -> list[str]:
    """The elements of a list, or the members of an object."""
    return list(value) if isinstance(value, (list, dict)) else []


def _close(name: str, fields: Sequence[str]) -> str | None:
    lower = {field.lower(): field for field in fields}
    close = get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    return lower[close[0]] if close else None


def _where(path: Sequence[str | int]) -> str:
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return f"{shown}: " if shown else ""
