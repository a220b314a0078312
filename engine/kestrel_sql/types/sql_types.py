"""SQL types as values that compare by structure; `str()` gives their canonical text.

Each SQL type has one Python type: BOOLEAN bool; INTEGER and BIGINT int; DOUBLE float; DECIMAL `decimal.Decimal` of
the declared size (but see `own_scales`); STRING str; BYTES bytes; TIME int (ms of the day); DATE int (days since
1970-01-01); TIMESTAMP int (ms since the epoch, UTC); ARRAY list; MAP dict (keeps insertion order); STRUCT dict from
field name to value, with every field present. None is NULL everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum

import msgspec

from kestrel_sql.errors import TypeMismatchError, did_you_mean


class Base(Enum):
    """The types without parameters."""

    # Members are themselves only; the hash that Python gives them is a function in Python.
    __hash__ = object.__hash__

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    TIME = "TIME"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


class Primitive(msgspec.Struct, frozen=True):
    """A type without parameters."""

    base: Base

    def __str__(self) -> str:
        return self.base.value


class Decimal(msgspec.Struct, frozen=True, eq=False):
    """An exact number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int
    own_scales: bool = False
    """Whether a value can have fewer digits after the point than `scale`, or more digits than `precision`.

    It is not a part of the type (rules U4.7, U4.8).
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decimal) and self.precision == other.precision and self.scale == other.scale

    def __ne__(self, other: object) -> bool:
        # `Struct` has one of its own, which Python would ask.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.precision, self.scale))

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


class Array(msgspec.Struct, frozen=True):
    """A list of items of one type."""

    item: SqlType

    def __str__(self) -> str:
        return f"ARRAY<{self.item}>"


class Map(msgspec.Struct, frozen=True):
    """A mapping from keys of one type to values of one type."""

    key: SqlType
    value: SqlType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


class Field(msgspec.Struct, frozen=True):
    """One field of a struct."""

    name: str
    type: SqlType

    def __str__(self) -> str:
        return f"{quote(self.name)} {self.type}"


class Struct(msgspec.Struct, frozen=True):
    """Named fields in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        # `<>` without a space would be an operator.
        return f"STRUCT<{', '.join(map(str, self.fields)) or ' '}>"

    def field(self, name: str) -> Field | None:
        """Return the field called exactly `name`, or None."""
        return next((field for field in self.fields if field.name == name), None)


class NamedType(msgspec.Struct, frozen=True):
    """A custom type by name; occurs only in parsed statements, until `resolve` replaces it."""

    name: str

    def __str__(self) -> str:
        return self.name


SqlType = Primitive | Decimal | Array | Map | Struct | NamedType

BOOLEAN = Primitive(Base.BOOLEAN)
INTEGER = Primitive(Base.INTEGER)
BIGINT = Primitive(Base.BIGINT)
DOUBLE = Primitive(Base.DOUBLE)
STRING = Primitive(Base.STRING)
BYTES = Primitive(Base.BYTES)
TIME = Primitive(Base.TIME)
DATE = Primitive(Base.DATE)
TIMESTAMP = Primitive(Base.TIMESTAMP)

PRIMITIVES: Mapping[str, Primitive] = {
    **{base.value: Primitive(base) for base in Base},
    "INT": INTEGER,
    "VARCHAR": STRING,
}

HEADERS_TYPE = Array(Struct((Field("KEY", STRING), Field("VALUE", BYTES))))


def quote(name: str) -> str:
    """Write `name` in backticks."""
    return "`" + name.replace("`", "``") + "`"


def is_numeric(sql_type: SqlType | None) -> bool:
    """Whether arithmetic is defined on the type."""
    return isinstance(sql_type, Decimal) or sql_type in (INTEGER, BIGINT, DOUBLE)


def parts_of(sql_type: SqlType) -> Iterator[SqlType]:
    """Yield a type and the types inside it, at any depth."""
    yield sql_type
    match sql_type:
        case Array(item):
            yield from parts_of(item)
        case Map(key, value):
            yield from parts_of(key)
            yield from parts_of(value)
        case Struct(fields):
            for field in fields:
                yield from parts_of(field.type)
        case _:
            pass


def contains(sql_type: SqlType | None, wanted: Callable[[SqlType], bool]) -> bool:
    """Whether a type or one inside of it, at any depth, is wanted."""
    return sql_type is not None and any(map(wanted, parts_of(sql_type)))


def with_leaves(sql_type: SqlType, change: Callable[[SqlType], SqlType]) -> SqlType:
    """Change the types that have no other types inside of them, at any depth."""
    match sql_type:
        case Array(item):
            return Array(with_leaves(item, change))
        case Map(key, value):
            return Map(with_leaves(key, change), with_leaves(value, change))
        case Struct(fields):
            return Struct(tuple(Field(field.name, with_leaves(field.type, change)) for field in fields))
        case _:
            return change(sql_type)


def resolve(sql_type: SqlType, custom: Mapping[str, SqlType]) -> SqlType:
    """Replace every custom type name, at any depth.

    Raises:
        TypeMismatchError: a name that `custom` does not have.
    """

    def resolved(leaf: SqlType) -> SqlType:
        if not isinstance(leaf, NamedType):
            return leaf
        if leaf.name not in custom:
            near = did_you_mean(leaf.name, (*PRIMITIVES, *custom))
            hint = near or f"create it first: CREATE TYPE {quote(leaf.name)} AS ...;"
            raise TypeMismatchError(f"Cannot resolve unknown type: {leaf.name}", hint=hint)
        return custom[leaf.name]

    return with_leaves(sql_type, resolved)


def contains_map(sql_type: SqlType) -> bool:
    """Whether a MAP occurs in the type, at any depth; key columns must not contain one."""
    return contains(sql_type, lambda part: isinstance(part, Map))
