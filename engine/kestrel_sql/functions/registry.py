"""The table of functions: which exist, and which overload a call means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, ModuleType

from kestrel_sql.errors import FunctionError, Span, did_you_mean
from kestrel_sql.functions.declaration import Aggregate, Function, Scalar, Tabular
from kestrel_sql.functions.resolve import Argument, Choice, Overload, choose
from kestrel_sql.functions.signature import parse_signature


@dataclass(frozen=True, slots=True)
class Registry:
    """All overloads by upper-case name; read-only, names sorted."""

    overloads: Mapping[str, tuple[Overload, ...]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads)

    def __contains__(self, name: str) -> bool:
        return name.upper() in self.overloads

    def get(self, name: str, span: Span | None = None) -> tuple[Overload, ...]:
        """The overloads of a function; the case of `name` does not matter.

        Raises:
            FunctionError: there is no such function.
        """
        found = self.overloads.get(name.upper())
        if found is None:
            hint = did_you_mean(name.upper(), self.overloads)
            raise FunctionError(f"Can't find any functions with the name '{name}'", span=span, hint=hint)
        return found

    def choose(self, name: str, arguments: Sequence[Argument], span: Span | None = None) -> Choice:
        """The overload for these argument types.

        Raises:
            FunctionError: no such function, not for these types, or two overloads fit equally well.
        """
        return choose(self.get(name, span), arguments, span)

    def is_aggregate(self, name: str) -> bool:
        """Whether the name is that of an aggregate; unknown names are not."""
        return isinstance(self._first(name), Aggregate)

    def is_table_function(self, name: str) -> bool:
        """Whether the name is that of a table function; unknown names are not."""
        return isinstance(self._first(name), Tabular)

    def with_functions(self, *functions: Function) -> Registry:
        """A registry with further functions or overloads.

        Raises:
            ValueError: an overload that exists, or one of another kind than its namesakes.
        """
        known = [
            function
            for overloads in self.overloads.values()
            for function in dict.fromkeys(o.function for o in overloads)
        ]
        return registry_of([*known, *functions])

    def _first(self, name: str) -> Function | None:
        found = self.overloads.get(name.upper())
        return found[0].function if found else None


def collect(*modules: ModuleType) -> Registry:
    """Index the functions that are attributes of `modules`.

    Raises:
        ValueError: two functions with one name and the same parameters, or of different kinds.
    """
    declared = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Scalar | Tabular | Aggregate)
    ]
    return registry_of(declared)


def registry_of(functions: Iterable[Function]) -> Registry:
    """Index `functions` by name.

    Raises:
        ValueError: two functions with one name and the same parameters, or of different kinds.
    """
    found: dict[str, list[Overload]] = {}
    for function in functions:
        overloads = found.setdefault(function.name, [])
        for text in function.signatures:
            _add(overloads, Overload(function, parse_signature(text)))
    return Registry(MappingProxyType({name: tuple(found[name]) for name in sorted(found)}))


def _add(overloads: list[Overload], new: Overload) -> None:
    for old in overloads:
        if old.signature.accepted == new.signature.accepted:
            raise ValueError(f"function {new.function.name} is declared twice for {new.signature}")
        if type(old.function) is not type(new.function):
            raise ValueError(f"function {new.function.name} is declared as two kinds of function")
    overloads.append(new)
