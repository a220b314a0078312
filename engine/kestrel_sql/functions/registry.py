"""Indexes functions by name and finds the overload of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType

import msgspec

from kestrel_sql.errors import FunctionError, Span, did_you_mean
from kestrel_sql.functions.declaration import Aggregate, Function, Scalar, Tabular
from kestrel_sql.functions.resolve import Argument, Choice, Overload, choose
from kestrel_sql.functions.signature import parse_signature
from kestrel_sql.types.schema import SYSTEM_NAMES


class Registry(msgspec.Struct, frozen=True, eq=False):
    """All overloads by upper-case function name, sorted by name; read-only. Two registries are never equal."""

    overloads: Mapping[str, tuple[Overload, ...]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads)

    def __contains__(self, name: str) -> bool:
        return name.upper() in self.overloads

    def get(self, name: str, span: Span | None = None) -> tuple[Overload, ...]:
        """Return the overloads of a function; `name` is case-insensitive.

        Raises:
            FunctionError: there is no such function.
        """
        overloads = self.overloads.get(name.upper())
        if overloads is None:
            hint = did_you_mean(name.upper(), self.overloads)
            if name.upper() in SYSTEM_NAMES:
                hint = f"{name.upper()} is a column: write it without parentheses"
            raise FunctionError(f"Can't find any functions with the name '{name}'", span=span, hint=hint)
        return overloads

    def choose(self, name: str, arguments: Sequence[Argument], span: Span | None = None) -> Choice:
        """Return the overload for argument types.

        Raises:
            FunctionError: there is no such function, none of its overloads accepts the types, or two fit equally well.
        """
        return choose(self.get(name, span), arguments, span)

    def is_aggregate(self, name: str) -> bool:
        """Whether an aggregate has the name; False for unknown names."""
        return isinstance(self._first(name), Aggregate)

    def is_table_function(self, name: str) -> bool:
        """Whether a table function has the name; False for unknown names."""
        return isinstance(self._first(name), Tabular)

    def with_functions(self, *functions: Function) -> Registry:
        """Return a registry that also has `functions`.

        Raises:
            ValueError: an overload exists already, or functions of different kinds share a name.
        """
        known = [
            function
            for overloads in self.overloads.values()
            for function in dict.fromkeys(o.function for o in overloads)
        ]
        return build_registry([*known, *functions])

    def _first(self, name: str) -> Function | None:
        overloads = self.overloads.get(name.upper())
        return overloads[0].function if overloads else None


def collect(*modules: ModuleType) -> Registry:
    """Index the functions that are attributes of `modules`.

    Raises:
        ValueError: two functions share a name and parameters, or functions of different kinds share a name.
    """
    declared = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Scalar | Tabular | Aggregate)
    ]
    return build_registry(declared)


def build_registry(functions: Iterable[Function]) -> Registry:
    """Index `functions` by name.

    Raises:
        ValueError: two functions share a name and parameters, or functions of different kinds share a name.
    """
    by_name: dict[str, list[Overload]] = {}
    for function in functions:
        overloads = by_name.setdefault(function.name, [])
        for text in function.signatures:
            _add(overloads, Overload(function, parse_signature(text)))
    return Registry(MappingProxyType({name: tuple(by_name[name]) for name in sorted(by_name)}))


def _add(overloads: list[Overload], new: Overload) -> None:
    for old in overloads:
        if old.signature.accepted == new.signature.accepted:
            raise ValueError(f"function {new.function.name} is declared twice for {new.signature}")
        if type(old.function) is not type(new.function):
            raise ValueError(f"function {new.function.name} is declared as two kinds of function")
    overloads.append(new)
