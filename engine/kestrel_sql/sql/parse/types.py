"""Builds types, identifiers and columns; lark calls the method named like the reduced grammar rule."""

from __future__ import annotations

import re

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.spans import NAME, Children, Part, child_span, cover, kinds
from kestrel_sql.sql.parse.tokens import Token
from kestrel_sql.types.sql_types import PRIMITIVES, Array, Decimal, Field, Map, NamedType, SqlType, Struct

_SOURCE_NAME = re.compile(r"[a-zA-Z0-9_-]*")


class TypeRules:
    """Identifiers, types, columns."""

    def text_of(self, token: Token) -> str:
        """Return the value of a string literal, without its quotes."""
        return str(token)[1:-1].replace("''", "'")

    def ident(self, c: Children) -> Token:
        """Normalise an identifier: upper case unless quoted."""
        token: Token = c[0]
        if token.type == "VARIABLE":
            span = child_span(token)
            raise SqlSyntaxError(
                f"line {span.line}:{span.column}: Syntax Error\nVariable {token.value} is not replaced",
                span=span,
                hint="variables are replaced only in scripts, after their DEFINE",
            )
        return token.update(NAME, _unquoted(token))

    def source_name(self, c: Children) -> Token:
        """The name or alias of a source; letters, digits, `_` and `-` only."""
        name: Token = c[0]
        if not _SOURCE_NAME.fullmatch(name.value):
            span = child_span(name)
            raise SqlSyntaxError(
                f"Illegal argument at line {span.line}:{span.column}. "
                f"Source names may only contain alphanumeric values, '_' or '-'. Got: '{name.value}'",
                span=span,
            )
        return name

    def source_alias(self, c: Children) -> Token:
        """An alias written without AS."""
        return self.source_name([self.ident(c)])

    def resource(self, c: Children) -> Part:
        """A topic or subject; it keeps its letter case even without quotes."""
        token: Token = c[0]
        quoted = token.type == "STRING_VALUE"
        text = self.text_of(token) if quoted else _unquoted(token) if token.type == "QUOTED_IDENTIFIER" else token.value
        return Part("resource", text, child_span(token))

    def type(self, c: Children) -> Part:
        """Any type."""
        part: Part = c[0]
        return part

    def array_type(self, c: Children) -> Part:
        """`ARRAY<T>`."""
        return _type(Array(c[2].value), c)

    def array_postfix(self, c: Children) -> Part:
        """`T ARRAY`."""
        return _type(Array(c[0].value), c)

    def map_type(self, c: Children) -> Part:
        """`MAP<K, V>`."""
        return _type(Map(c[2].value, c[4].value), c)

    def struct_type(self, c: Children) -> Part:
        """`STRUCT<…>`."""
        return _type(Struct(tuple(child.value for child in c if isinstance(child, Part))), c)

    def field(self, c: Children) -> Part:
        """`name T`."""
        return Part("field", Field(c[0].value, c[1].value), cover(c))

    def decimal_type(self, c: Children) -> Part:
        """`DECIMAL(p, s)`."""
        precision, scale = c[2].value, c[4].value
        if not isinstance(precision, int) or not isinstance(scale, int):
            raise SqlSyntaxError("Invalid DECIMAL: precision and scale must be integers", span=cover(c))
        written = f"DECIMAL({precision}, {scale})"
        if precision < 1:
            raise SqlSyntaxError(f"DECIMAL precision must be >= 1: {written}", span=cover(c))
        if scale < 0:
            raise SqlSyntaxError(f"DECIMAL scale must be >= 0: {written}", span=cover(c))
        if scale > precision:
            raise SqlSyntaxError(f"DECIMAL precision must be >= scale: {written}", span=cover(c))
        return _type(Decimal(precision, scale), c)

    def named_type(self, c: Children) -> Part:
        """A built-in type, or a custom type by name; parameters such as those of VARCHAR(10) have no effect."""
        name = c[0].value
        return _type(PRIMITIVES.get(name.upper(), NamedType(name)), c)

    def element(self, c: Children) -> s.Element:
        """`name T role`."""
        role, key = c[2].value if len(c) > 2 else (s.ElementRole.NONE, None)
        return s.Element(c[0].value, c[1].value, role, key, span=cover(c))

    def element_role(self, c: Children) -> Part:
        """`KEY`, `PRIMARY KEY`, `HEADERS` or `HEADER('k')`."""
        written = kinds(c)
        key = self.text_of(c[2]) if "HEADER" in written else None
        role = s.ElementRole.PRIMARY_KEY if "PRIMARY" in written else s.ElementRole(c[0].type)
        return Part("element_role", (role, key), cover(c))

    def elements(self, c: Children) -> Part:
        """Columns in parentheses."""
        return Part("elements", _elements(c), cover(c))

    def schema(self, c: Children) -> tuple[s.Element, ...]:
        """The columns of a schema string."""
        return _elements(c)


def _elements(c: Children) -> tuple[s.Element, ...]:
    return tuple(child for child in c if isinstance(child, s.Element))


def _type(value: SqlType, c: Children) -> Part:
    return Part("type", value, cover(c))


def _unquoted(token: Token) -> str:
    if token.type != "QUOTED_IDENTIFIER":
        return token.upper()
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)
