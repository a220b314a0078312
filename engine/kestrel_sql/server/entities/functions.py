"""Functions as the API shows them."""

from __future__ import annotations

from typing import Any

from kestrel_sql.functions.declaration import Aggregate, Function, Tabular
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.signature import parse_signature


def function_names(functions: Registry) -> list[dict[str, Any]]:
    """All functions by name."""
    return [
        {"name": name, "type": _kind(functions.get(name)[0].function), "category": "OTHERS"}
        for name in sorted(functions)
    ]


def function_entry(name: str, functions: Registry) -> dict[str, Any]:
    """The fields of a `describe_function` answer.

    Raises:
        FunctionError: there is no such function.
    """
    found = {overload.function.name: overload.function for overload in functions.get(name)}
    first = next(iter(found.values()))
    signatures = dict.fromkeys((text, each.doc.strip()) for each in found.values() for text in each.signatures)
    return {
        "name": name.upper(),
        "description": first.doc.strip().split("\n", 1)[0],
        "author": "",
        "version": "",
        "path": "internal",
        "functions": [_variation(text, doc) for text, doc in signatures],
        "type": _kind(first),
    }


def _kind(function: Function) -> str:
    if isinstance(function, Aggregate):
        return "AGGREGATE"
    return "TABLE" if isinstance(function, Tabular) else "SCALAR"


def _variation(text: str, doc: str) -> dict[str, Any]:
    signature = parse_signature(text)
    types = [str(parameter.pattern) for parameter in signature.parameters]
    return {
        "arguments": [
            {"name": parameter.name, "type": type_, "description": "", "isVariadic": parameter.variadic}
            for parameter, type_ in zip(signature.parameters, types, strict=True)
        ],
        "returnType": str(signature.returns),
        "description": doc,
        "argumentTypes": types,
    }
