"""Functions that scripts call and nobody declares: how they are called, and a file of declarations to fill in."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Sequence
from types import MappingProxyType

import msgspec

from kestrel_sql.errors import Span
from kestrel_sql.functions.declaration import scalar
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.resolve import Argument, Choice
from kestrel_sql.functions.signature import parse_signature
from kestrel_sql.sql.nodes.admin import Statement
from kestrel_sql.sql.nodes.expressions import ColumnRef, Dereference, Expression, FunctionCall
from kestrel_sql.sql.nodes.walk import rewrite_within

_PYTHON = {"BOOLEAN": "bool", "INTEGER": "int", "BIGINT": "int", "DOUBLE": "float", "STRING": "str", "BYTES": "bytes"}


_HEAD = '''"""Functions that the scripts call: fill in the bodies, and name this file with --functions."""

from __future__ import annotations

from typing import Any

from kestrel_sql.functions.declaration import scalar
'''


class MissingFunction(msgspec.Struct):
    """A function that is called and does not exist.

    Attributes:
        name: its name in upper case.
        parameters: what its arguments are called, as far as they are columns.
        calls: the types of the arguments of each call that was planned.
    """

    name: str
    parameters: tuple[str, ...]
    calls: list[Sequence[Argument]] = []

    @property
    def signatures(self) -> list[str]:
        """A signature for each list of types that it is called with; the result is a guess."""
        lists = dict.fromkeys(tuple(map(_type, call)) for call in self.calls) or {("ANY",) * len(self.parameters): None}
        return [f"({', '.join(f'{name} {kind}' for name, kind in self._named(kinds))}) -> STRING" for kinds in lists]

    def declaration(self) -> str:
        """The function in Python, its body left to fill in."""
        name = self.name.lower() + ("_" if keyword.iskeyword(self.name.lower()) else "")
        first = tuple(map(_type, self.calls[0])) if self.calls else ("ANY",) * len(self.parameters)
        parameters = ", ".join(f"{each}: {_PYTHON.get(kind, 'Any')}" for each, kind in self._named(first))
        written = ", ".join(f'"{signature}"' for signature in self.signatures)
        return (
            f"@scalar({written})\n"
            f"def {name}({parameters}) -> str:\n"
            '    """Say what it gives; the type behind the arrow is a guess, as is that it is no aggregate."""\n'
            f'    raise NotImplementedError("{self.name}")\n'
        )

    def _named(self, kinds: Sequence[str]) -> list[tuple[str, str]]:
        names = [*self.parameters, *(f"a{at}" for at in range(len(self.parameters) + 1, len(kinds) + 1))]
        return list(zip(names, kinds, strict=False))


class _Listening(Registry, frozen=True, eq=False):
    """A registry that keeps the types of the arguments with which stubs are called."""

    missing: dict[str, MissingFunction]

    def choose(self, name: str, arguments: Sequence[Argument], span: Span | None = None) -> Choice:
        """Return the overload for argument types."""
        stub = self.missing.get(name.upper())
        if stub is not None:
            stub.calls.append(tuple(arguments))
        return Registry.choose(self, name, arguments, span)


def with_stubs(functions: Registry, statement: Statement, missing: dict[str, MissingFunction]) -> Registry | None:
    """Return functions with a stub for each that a statement misses, and add them to `missing`; None if it has all."""
    found: dict[str, MissingFunction] = {}

    def note(expression: Expression) -> Expression | None:
        if isinstance(expression, FunctionCall) and expression.name not in functions:
            name = expression.name.upper()
            found.setdefault(name, MissingFunction(name, _names(expression.arguments)))
        return None

    rewrite_within(statement, note)
    if not found:
        return None
    missing.update(found)
    stubs = [scalar("(ANY...) -> STRING", name=name)(_unknown) for name in found]
    return _Listening(MappingProxyType(dict(functions.with_functions(*stubs).overloads)), missing)


def stub_file(missing: Iterable[MissingFunction]) -> str:
    """A Python file with a declaration of each function."""
    return "\n\n".join([_HEAD, *(function.declaration() for function in missing)])


def _names(arguments: Sequence[Expression]) -> tuple[str, ...]:
    names: list[str] = []
    for at, argument in enumerate(arguments, 1):
        match argument:
            case ColumnRef(name=name) | Dereference(field=name) if name.isidentifier() and name.isascii():
                name = name.lower() + ("_" if keyword.iskeyword(name.lower()) else "")
                names.append(f"{name}{at}" if name in names else name)
            case _:
                names.append(f"a{at}")
    return tuple(names)


def _type(argument: Argument) -> str:
    text = "STRING" if argument is None else str(argument)
    try:
        parse_signature(f"(a {text}) -> STRING")
    except ValueError:
        return "ANY"
    return text


def _unknown(*_: object) -> str:
    """Stand for a function that is missing."""
    raise NotImplementedError
