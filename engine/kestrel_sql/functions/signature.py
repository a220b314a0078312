"""Parses signatures of functions, such as `(input STRING, length INT) -> STRING`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kestrel_sql.types.sql_types import PRIMITIVES, STRING, Decimal, Primitive


class Generic(msgspec.Struct, frozen=True):
    """A type variable; it has one type per call."""

    name: str

    def __str__(self) -> str:
        return self.name


class AnyDecimal(msgspec.Struct, frozen=True):
    """A DECIMAL of any size; `precision` and `scale` are variables that the result type may use."""

    precision: str = ""
    scale: str = ""

    def __str__(self) -> str:
        return "DECIMAL"


class AnyType(msgspec.Struct, frozen=True):
    """Any type; arguments may differ."""

    def __str__(self) -> str:
        return "ANY"


class Interval(msgspec.Struct, frozen=True):
    """An interval unit such as DAYS."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


class ArrayOf(msgspec.Struct, frozen=True):
    """An ARRAY pattern."""

    item: Pattern

    def __str__(self) -> str:
        return f"ARRAY<{self.item}>"


class MapOf(msgspec.Struct, frozen=True):
    """A MAP pattern."""

    key: Pattern
    value: Pattern

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


class StructOf(msgspec.Struct, frozen=True):
    """A STRUCT pattern: names and patterns in order."""

    fields: tuple[tuple[str, Pattern], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name} {pattern}' for name, pattern in self.fields)}>"


class LambdaOf(msgspec.Struct, frozen=True):
    """A lambda: the patterns of its parameters and of its result."""

    parameters: tuple[Pattern, ...]
    result: Pattern

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.parameters))}) => {self.result}"


Pattern = Primitive | Decimal | Generic | AnyDecimal | AnyType | Interval | ArrayOf | MapOf | StructOf | LambdaOf


class Parameter(msgspec.Struct, frozen=True):
    """One parameter.

    `variadic` accepts zero or more arguments. A NULL argument for `not_null` is an error (in Java, a primitive type).
    The argument for `literal` is a constant that the factory of an aggregate takes. An ARRAY<STRING> for `takes_list`
    converts to a STRING.
    """

    pattern: Pattern
    name: str = ""
    variadic: bool = False
    not_null: bool = False
    literal: bool = False
    takes_list: bool = False

    def __str__(self) -> str:
        return f"{self.pattern}{'...' if self.variadic else ''}{' ' if self.name else ''}{self.name}"


class Signature(msgspec.Struct, frozen=True):
    """The parameters and the result of one overload."""

    parameters: tuple[Parameter, ...]
    returns: Pattern

    @property
    def variadic_at(self) -> int | None:
        """The index of the variadic parameter, if there is one."""
        return next((i for i, parameter in enumerate(self.parameters) if parameter.variadic), None)

    @property
    def accepted(self) -> tuple[tuple[Pattern, bool], ...]:
        """The patterns and variadicity of the parameters, in which two overloads must differ."""
        return tuple((parameter.pattern, parameter.variadic) for parameter in self.parameters)

    def expanded(self, count: int) -> tuple[Parameter, ...] | None:
        """Return `count` parameters by repeating the variadic one; None if the signature does not allow that many."""
        at = self.variadic_at
        spare = count - len(self.parameters)
        if at is None:
            return self.parameters if spare == 0 else None
        if spare < -1:
            return None
        repeated = self.parameters[at]
        if spare == 0 and repeated.pattern == STRING:
            # To ksqlDB the parameter is an array, so it takes one; the body then gets its text.
            repeated = replace(repeated, takes_list=True)
        return self.parameters[:at] + (repeated,) * (spare + 1) + self.parameters[at + 1 :]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> {self.returns}"


def generics_of(pattern: Pattern) -> frozenset[str]:
    """Return the names of the type variables in `pattern`, at any depth."""
    return frozenset(part.name for part in walk(pattern) if isinstance(part, Generic))


def is_concrete(pattern: Pattern) -> bool:
    """Whether `pattern` accepts one SQL type only, but for implicit conversions."""
    return not any(isinstance(part, Generic | AnyDecimal | AnyType | Interval | LambdaOf) for part in walk(pattern))


def walk(pattern: Pattern) -> Iterator[Pattern]:
    """Yield `pattern` and all patterns in it."""
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
    """Parse the text of a signature.

    A parameter is `[literal] [name] TYPE[...] [NOT NULL]`. Types are upper case, names start in lower case, single
    upper-case letters are type variables; `DECIMAL` and `DECIMAL(p,s)` accept decimals of any size.

    Raises:
        ValueError: the text is not a signature; a declaration is wrong, not a statement of a user.
    """
    return _Parser(text).signature()


_T = TypeVar("_T")
_TOKEN = re.compile(r"\s*(->|=>|\.\.\.|[(),<>]|`[^`]+`|[A-Za-z_][A-Za-z_0-9]*|[0-9]+)")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"bad signature {text!r} at {position}")
            self.tokens.append(match.group(1))
            position = match.end()
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
        parameters = self.listed("(", self.parameter, ")")
        self.take("->")
        signature = Signature(parameters, self.pattern())
        if self.peek():
            raise ValueError(f"bad signature {self.text!r}: unexpected {self.peek()}")
        return signature

    def listed(self, opening: str, read: Callable[[], _T], closing: str, count: int | None = None) -> tuple[_T, ...]:
        self.take(opening)
        items: list[_T] = []
        while not self.skip(closing):
            if items:
                self.take(",")
            items.append(read())
        if count is not None and len(items) != count:
            raise ValueError(f"bad signature {self.text!r}: expected {count} in {opening}{closing}, found {len(items)}")
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
        if self.peek() != "(":
            return AnyDecimal()
        precision, scale = self.listed("(", self.take, ")", 2)
        return Decimal(int(precision), int(scale)) if precision.isdigit() else AnyDecimal(precision, scale)

    def array(self) -> Pattern:
        return ArrayOf(*self.listed("<", self.pattern, ">", 1))

    def map(self) -> Pattern:
        return MapOf(*self.listed("<", self.pattern, ">", 2))

    def struct(self) -> Pattern:
        return StructOf(self.listed("<", self.struct_field, ">"))

    def struct_field(self) -> tuple[str, Pattern]:
        return self.take().strip("`"), self.pattern()

    def lambda_(self) -> Pattern:
        parameters = self.listed("(", self.pattern, ")")
        self.take("=>")
        return LambdaOf(parameters, self.pattern())


_COMPOSITE: dict[str, Callable[[_Parser], Pattern]] = {
    "ARRAY": _Parser.array,
    "MAP": _Parser.map,
    "STRUCT": _Parser.struct,
    "LAMBDA": _Parser.lambda_,
    "ANY": lambda _: AnyType(),
    "INTERVALUNIT": lambda _: Interval(),
}
