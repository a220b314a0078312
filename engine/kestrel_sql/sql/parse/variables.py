"""Replaces `${name}` references (rules L7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from kestrel_sql.errors import Span, SqlSyntaxError

_REFERENCE = re.compile(r"(\$)?\$\{([^}]*?)(:-[^}]*)?\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")
_STRING = re.compile(r"'(?:[^']|'')*'", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*|`[A-Za-z_][A-Za-z0-9_@]*`|\"[A-Za-z_][A-Za-z0-9_@]*\"")
_NUMBERS = (
    ("INTEGER_VALUE", re.compile(r"[0-9]+")),
    ("DECIMAL_VALUE", re.compile(r"[0-9]+\.[0-9]*|\.[0-9]+")),
    ("FLOATING_POINT_VALUE", re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)[Ee][+-]?[0-9]+")),
)


class Variables:
    """The variables of a session; names are case-insensitive. `define` and `undefine` return a new set."""

    __slots__ = ("_by_key", "_values")

    def __init__(self, values: Mapping[str, str] = MappingProxyType({})) -> None:
        """Copy `values`, given by name.

        Raises:
            SqlSyntaxError: a name is not an unquoted identifier.
        """
        for name in values:
            if not _NAME.fullmatch(name):
                raise SqlSyntaxError(
                    f"Illegal variable name: '{name}'",
                    hint="use letters, digits, '_' and '@', and no digit at the start",
                )
        self._values = dict(values)
        self._by_key = {name.upper(): value for name, value in values.items()}

    def letters(self, text: str) -> int:
        """How many letters the references in a text stand for."""
        return sum(len(self._by_key.get(match[2].upper(), "")) for match in _REFERENCE.finditer(text))

    @property
    def values(self) -> Mapping[str, str]:
        """The values by name, as it was written first."""
        return MappingProxyType(self._values)

    def define(self, name: str, value: str) -> Variables:
        """Add a variable or replace its value."""
        return Variables({**self._values, known_name(self._values, name): value})

    def undefine(self, name: str) -> Variables:
        """Remove a variable, if it exists."""
        return Variables({known: value for known, value in self._values.items() if known.upper() != name.upper()})

    def in_text(self, text: str, escape: Callable[[str], str] = str) -> str:
        """Replace every reference in `text`, once.

        `${name:-default}` has a default for an unknown name; other references to unknown names stay. `$${name}` stands
        for the text `${name}`.
        """

        def replacement(match: re.Match[str]) -> str:
            if match[1] is not None:
                return match[0][1:]
            value = self._by_key.get(match[2].upper())
            if value is None:
                return match[0] if match[3] is None else match[3][2:]
            return escape(value)

        return _REFERENCE.sub(replacement, text)

    def in_string_literal(self, literal: str) -> str:
        """Replace references in a string literal with its quotes; double the quotes in values."""
        return self.in_text(literal, lambda value: value.replace("'", "''"))

    def as_tokens(self, reference: str, span: Span | None = None) -> tuple[tuple[str, str], ...]:
        """Return the (token type, text) pairs of a reference outside of strings: one identifier or one literal.

        Raises:
            SqlSyntaxError: the variable is undefined, or its value is neither.
        """
        name = reference.removeprefix("${").removesuffix("}").upper()
        if name not in self._by_key:
            raise SqlSyntaxError(
                f"Variable {reference} is not defined", span=span, hint=f"define it first: DEFINE {name} = '...';"
            )
        value = self._by_key[name]
        tokens = _literal_tokens(value) or _identifier_tokens(value)
        if tokens is None:
            position = f"line {span.line}:{span.column}" if span else "a variable"
            raise SqlSyntaxError(
                f"Illegal argument at {position}. Got: '{value}'",
                span=span,
                public=f"Illegal argument at {position}.",
                hint=f"the value of {reference} must be one identifier, quoted string or number, or TRUE or FALSE",
            )
        return tokens


def known_name(values: Iterable[str], name: str) -> str:
    """Return the name of a variable as it was written first; names ignore case (rule L7.1)."""
    return next((known for known in values if known.upper() == name.upper()), name)


def _literal_tokens(value: str) -> tuple[tuple[str, str], ...] | None:
    if value.upper() in ("TRUE", "FALSE"):
        return ((value.upper(), value),)
    if _STRING.fullmatch(value):
        return (("STRING_VALUE", value),)
    sign, digits = (("MINUS", "-"),) if value.startswith("-") else (), value.removeprefix("-")
    for kind, pattern in _NUMBERS:
        if pattern.fullmatch(digits):
            return (*sign, (kind, digits))
    return None


def _identifier_tokens(value: str) -> tuple[tuple[str, str], ...] | None:
    if not _IDENTIFIER.fullmatch(value):
        return None
    return (("QUOTED_IDENTIFIER" if value[0] in '`"' else "IDENTIFIER", value),)
