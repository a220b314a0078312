"""Functions as the API shows them."""

from __future__ import annotations

import re

from kestrel_sql.errors import Span
from kestrel_sql.functions.declaration import Aggregate, Function, Scalar, Tabular
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.signature import Parameter, parse_signature

_NAMES = {"STRING": "VARCHAR", "INTEGER": "INT", "INTERVALUNIT": "INTERVAL UNIT"}
_CATEGORIES = {
    "collections.arrays": "ARRAY",
    "collections.lambdas": "LAMBDA",
    "collections.maps": "MAP",
    "collections.table_functions": "TABLE",
    "nulls": "CONDITIONAL",
    "numbers.bytes": "CONVERSIONS",
    "numbers.reals": "MATHEMATICAL",
    "numbers.rounding": "MATHEMATICAL",
    "text.conversions": "STRING",
    "text.json": "JSON",
    "text.masks": "STRING",
    "text.regex": "REGULAR EXPRESSION",
    "text.strings": "STRING",
    "text.urls": "URL",
    "time.dates": "DATE / TIME",
    "time.times": "DATE / TIME",
    "time.timestamps": "DATE / TIME",
}
"""The categories of the modules of the library; everything else is OTHER."""


def function_names(functions: Registry) -> list[dict[str, object]]:
    """All functions by name."""
    return [
        {"name": name, "type": _kind(function), "category": _category(function)}
        for name in sorted(functions)
        for function in (functions.get(name)[0].function,)
    ]


def function_entry(name: str, functions: Registry, span: Span | None = None) -> dict[str, object]:
    """The fields of a `describe_function` answer.

    Raises:
        FunctionError: there is no such function.
    """
    found = list(dict.fromkeys(overload.function for overload in functions.get(name, span)))
    first = found[0]
    signatures = {(text, each.doc.strip()): each for each in found for text in each.signatures}
    return {
        "name": name.upper(),
        "description": first.doc.strip().split("\n", 1)[0],
        "author": "",
        "version": "",
        "path": "internal",
        "functions": [_variation(text, doc, each) for (text, doc), each in signatures.items()],
        "type": _kind(first),
    }


def _kind(function: Function) -> str:
    if isinstance(function, Aggregate):
        return "AGGREGATE"
    return "TABLE" if isinstance(function, Tabular) else "SCALAR"


def _category(function: Function) -> str:
    """The category that ksqlDB files a function under."""
    if isinstance(function, Aggregate):
        return "AGGREGATE"
    family = function.body.__module__.removeprefix("kestrel_sql.functions.library.")
    return "OTHER" if function.name in ("AS_VALUE", "GEO_DISTANCE") else _CATEGORIES.get(family, "OTHER")


def _type(pattern: object) -> str:
    """A type as ksqlDB's functions name it."""
    return re.sub(r"\w+", lambda word: _NAMES.get(word[0], word[0]), str(pattern))


def _argument(parameter: Parameter, at: int, function: Function) -> str:
    """The name of an argument; ksqlDB gives the columns of an aggregate none of their own."""
    if isinstance(function, Scalar) and parameter.name in function.shown_names:
        return function.shown_names[parameter.name]
    return f"val{at}" if isinstance(function, Aggregate) and not parameter.literal else parameter.name or f"col{at}"


def _variation(text: str, doc: str, function: Function) -> dict[str, object]:
    signature = parse_signature(text)
    types = [_type(parameter.pattern) for parameter in signature.parameters]
    return {
        "arguments": [
            {
                "name": _argument(parameter, at, function),
                "type": type_,
                "description": "",
                "isVariadic": parameter.variadic,
            }
            for at, (parameter, type_) in enumerate(zip(signature.parameters, types, strict=True), 1)
        ],
        "returnType": _type(signature.returns),
        "description": doc,
        "argumentTypes": types,
    }
