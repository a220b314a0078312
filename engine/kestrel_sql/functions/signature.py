"""Signatures of functions: what a declaration's text such as `(input STRING, length INT) -> STRING` says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from kestrel_sql.types.sql_types import PRIMITIVES, Decimal, Primitive


@dataclass(frozen=True, slots=True)
class Generic:
    """A type variable; bound to one type per call."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class AnyDecimal:
    """A DECIMAL of any size; `precision` and `scale` name what the result type may repeat."""

    precision: str = ""
    scale: str = ""

    def __str__(self) -> str:
        return "DECIMAL"


@dataclass(frozen=True, slots=True)
class AnyType:
    """Any type at all, each argument for itself."""

    def __str__(self) -> str:
        return "ANY"


@dataclass(frozen=True, slots=True)
class Interval:
    """A bare interval unit such as DAYS."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An ARRAY pattern."""

    item: Pattern

    def __str__(self) -> str:
        return f"ARRAY<{self.item}>"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A MAP pattern."""

    key: Pattern
    value: Pattern

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class StructOf:
    """A STRUCT pattern: names and patterns in order."""

    fields: tuple[tuple[str, Pattern], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name} {pattern}' for name, pattern in self.fields)}>"


@dataclass(frozen=True, slots=True)
class LambdaOf:
    """A lambda: the patterns of its parameters and of its result."""

    parameters: tuple[Pattern, ...]
    result: Pattern

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.parameters))}) => {self.result}"


Pattern = Primitive | Decimal | Generic | AnyDecimal | AnyType | Interval | ArrayOf | MapOf | StructOf | LambdaOf


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    `variadic` takes zero or more arguments; `not_null` means that a NULL argument is an error (a Java primitive);
    `literal` that the argument is a constant, given when an aggregate is made.
    """

    pattern: Pattern
    name: str = ""
    variadic: bool = False
    not_null: bool = False
    literal: bool = False

    def __str__(self) -> str:
        return f"{self.pattern}{'...' if self.variadic else ''}{' ' if self.name else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and the result of one overload."""

    parameters: tuple[Parameter, ...]
    returns: Pattern

    @property
    def variadic_at(self) -> int | None:
        """The position of the variadic parameter, if there is one."""
        return next((i for i, parameter in enumerate(self.parameters) if parameter.variadic), None)

    @property
    def accepted(self) -> tuple[tuple[Pattern, bool], ...]:
        """What tells two overloads apart: patterns and variadicity, without names."""
        return tuple((parameter.pattern, parameter.variadic) for parameter in self.parameters)

    def expanded(self, count: int) -> tuple[Parameter, ...] | None:
        """Repeat the variadic parameter so that there are `count` parameters; None if that cannot be."""
        at = self.variadic_at
        spare = count - len(self.parameters)
        if at is None:
            return self.parameters if spare == 0 else None
        if spare < -1:
            return None
        return self.parameters[:at] + (self.parameters[at],) * (spare + 1) + self.parameters[at + 1 :]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> {self.returns}"


def generics_of(pattern: Pattern) -> frozenset[str]:
    """The names of the type variables in `pattern`, at any depth."""
    return frozenset(found.name for found in walk(pattern) if isinstance(found, Generic))


def walk(pattern: Pattern) -> Iterator[Pattern]:
    """Give `pattern` and all patterns in it."""
    yield pattern
    match pattern:
        case ArrayOf(item):
            yield from walk(item)
        case MapOf(key, value):
            yield from walk(key)
            yield from walk(value)
        case StructOf(fields):
            for _, field in fields:
                yield from walk(field)
        case LambdaOf(parameters, result):
            for parameter in (*parameters, result):
                yield from walk(parameter)
        case _:
            return


@cache
def parse_signature(text: str) -> Signature:
    """Parse a signature text.

    A parameter is `[literal] [name] TYPE[...] [NOT NULL]`; types are upper case, names start in lower case, single
    upper-case letters are type variables, `DECIMAL` and `DECIMAL(p,s)` stand for decimals of any size.

    Raises:
        ValueError: the text is not a signature (a mistake in a declaration, not of a user).
    """
    return _Reader(text).signature()


_T = TypeVar("_T")
_TOKEN = re.compile(r"\s*(->|=>|\.\.\.|[(),<>]|`[^`]+`|[A-Za-z_][A-Za-z_0-9]*|[0-9]+)")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(f"bad signature {text!r} at {position}")
            self.tokens.append(found.group(1))
            position = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise ValueError(f"bad signature {self.text!r}: expected {expected or 'more'}, found {token or 'the end'}")
        self.at += 1
        return token

    def skip(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def signature(self) -> Signature:
        self.take("(")
        parameters = self.until(")", self.parameter)
        self.take("->")
        signature = Signature(parameters, self.pattern())
        if self.peek():
            raise ValueError(f"bad signature {self.text!r}: unexpected {self.peek()}")
        return signature

    def until(self, closing: str, read: Callable[[], _T]) -> tuple[_T, ...]:
        items: list[_T] = []
        while not self.skip(closing):
            if items:
                self.take(",")
            items.append(read())
        return tuple(items)

    def parameter(self) -> Parameter:
        literal = self.skip("literal")
        name = self.take() if self.peek()[:1].islower() or self.peek()[:1] == "_" else ""
        literal = self.skip("literal") or literal
        pattern = self.pattern()
        variadic = self.skip("...")
        not_null = self.skip("NOT")
        if not_null:
            self.take("NULL")
        return Parameter(pattern, name, variadic, not_null, literal)

    def pattern(self) -> Pattern:
        word = self.take()
        if word == "DECIMAL":
            return self.decimal()
        if word in _COMPOSITE:
            return _COMPOSITE[word](self)
        if word in PRIMITIVES:
            return PRIMITIVES[word]
        if len(word) == 1 and word.isupper():
            return Generic(word)
        raise ValueError(f"bad signature {self.text!r}: unknown type {word}")

    def decimal(self) -> Pattern:
        if not self.skip("("):
            return AnyDecimal()
        precision = self.take()
        self.take(",")
        scale = self.take()
        self.take(")")
        return Decimal(int(precision), int(scale)) if precision.isdigit() else AnyDecimal(precision, scale)

    def array(self) -> Pattern:
        self.take("<")
        item = self.pattern()
        self.take(">")
        return ArrayOf(item)

    def map(self) -> Pattern:
        self.take("<")
        key = self.pattern()
        self.take(",")
        value = self.pattern()
        self.take(">")
        return MapOf(key, value)

    def struct(self) -> Pattern:
        self.take("<")
        return StructOf(self.until(">", self.struct_field))

    def struct_field(self) -> tuple[str, Pattern]:
        return self.take().strip("`"), self.pattern()

    def lambda_(self) -> Pattern:
        self.take("(")
        parameters = self.until(")", self.pattern)
        self.take("=>")
        return LambdaOf(parameters, self.pattern())


_COMPOSITE: dict[str, Callable[[_Reader], Pattern]] = {
    "ARRAY": _Reader.array,
    "MAP": _Reader.map,
    "STRUCT": _Reader.struct,
    "LAMBDA": _Reader.lambda_,
    "ANY": lambda _: AnyType(),
    "INTERVALUNIT": lambda _: Interval(),
}
