"""Says fast that a value fulfils a JSON schema; what is wrong with one that may not, jsonschema says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Check = Callable[[Any], bool]
_Schema = Mapping[str, Any]

_NUMBER = (int, float, Decimal)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": _NUMBER,
}

_NOTES = frozenset({"$schema", "$id", "$defs", "title", "description", "default", "format", "then", "else"})
"""Keywords that check nothing, or that another one looks at."""

_LIMITS: Mapping[str, tuple[tuple[type, ...], Callable[[Any, Any], bool]]] = {
    "required": ((dict,), lambda value, names: value.keys() >= set(names)),
    "minProperties": ((dict,), lambda value, number: len(value) >= number),
    "minItems": ((list,), lambda value, number: len(value) >= number),
    "uniqueItems": ((list,), lambda value, _: all(each not in value[:at] for at, each in enumerate(value))),
    "minLength": ((str,), lambda value, number: len(value) >= number),
    "pattern": ((str,), lambda value, pattern: re.search(pattern, value) is not None),
    "minimum": (_NUMBER, lambda value, number: value >= number),
    "exclusiveMinimum": (_NUMBER, lambda value, number: value > number),
}
"""Keywords that limit values of some types, and say nothing of others."""


@dataclass(slots=True)
class QuickCheck:
    """Makes functions that are true only of values which fulfil a schema, and perhaps not of all these."""

    definitions: Mapping[str, _Schema]
    _known: dict[str, Check] = field(default_factory=dict)

    def of(self, schema: _Schema | bool) -> Check:
        """Return the function of a schema; raise KeyError for a keyword that is not known here."""
        if isinstance(schema, bool):
            return lambda value: schema
        checks = [self._keyword(name, wanted, schema) for name, wanted in schema.items() if name not in _NOTES]
        return checks[0] if len(checks) == 1 else lambda value: all(check(value) for check in checks)

    def _keyword(self, name: str, wanted: Any, schema: _Schema) -> Check:
        match name:
            case "type":
                return _of_type([wanted] if isinstance(wanted, str) else wanted)
            case "$ref":
                return lambda value: self._defined(wanted)(value)
            case "properties" | "additionalProperties":
                known = {each: self.of(below) for each, below in schema.get("properties", {}).items()}
                other = self.of(schema.get("additionalProperties", True))
                return lambda value: (
                    not isinstance(value, dict) or all(known.get(each, other)(below) for each, below in value.items())
                )
            case "items":
                item = self.of(wanted)
                return lambda value: not isinstance(value, list) or all(map(item, value))
            case "enum":
                return lambda value: any(type(value) is type(each) and value == each for each in wanted)
            case "if":
                test, then, otherwise = (self.of(schema.get(each, True)) for each in ("if", "then", "else"))
                return lambda value: then(value) if test(value) else otherwise(value)
            case _:
                kinds, limit = _LIMITS[name]
                return lambda value: not isinstance(value, kinds) or limit(value, wanted)

    def _defined(self, reference: str) -> Check:
        """The function of a definition, which is made when a value is checked, as a definition may name itself."""
        if reference not in self._known:
            self._known[reference] = self.of(self.definitions[reference.removeprefix("#/$defs/")])
        return self._known[reference]


def _of_type(names: list[str]) -> Check:
    kinds = tuple(kind for name in names for kind in _TYPES[name])
    may_be_bool = "boolean" in names
    return lambda value: isinstance(value, kinds) and (may_be_bool or not isinstance(value, bool))
