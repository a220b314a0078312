"""Generates protobuf schemas from columns, in the layout of Confluent's converter (rules F4.8)."""

from __future__ import annotations

import msgspec

from kestrel_sql.errors import FormatError
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct

DEFAULT_NAME = "ConnectDefault1"

_SCALARS = {
    Base.BOOLEAN: "bool",
    Base.INTEGER: "int32",
    Base.BIGINT: "int64",
    Base.DOUBLE: "double",
    Base.STRING: "string",
    Base.BYTES: "bytes",
}
_WRAPPERS = {
    Base.BOOLEAN: "BoolValue",
    Base.INTEGER: "Int32Value",
    Base.BIGINT: "Int64Value",
    Base.DOUBLE: "DoubleValue",
    Base.STRING: "StringValue",
    Base.BYTES: "BytesValue",
}
_MESSAGES = {
    Base.DATE: ("google.type.Date", "google/type/date.proto"),
    Base.TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    Base.TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
_DECIMAL_OPTIONS = """ [(confluent.field_meta) = {{
  params: [
    {{
      value: "{precision}",
      key: "precision"
    }},
    {{
      value: "{scale}",
      key: "scale"
    }}
  ]
}}]"""


class _Writer(msgspec.Struct):
    nullable: str
    count: int
    imports: set[str] = set()

    def message(self, name: str, fields: tuple[tuple[str, SqlType], ...], *, entry: bool = False) -> list[str]:
        """Return the lines of a message; nested messages follow its fields."""
        lines, nested = [f"message {name} {{"], list[str]()
        for number, (each, sql_type) in enumerate(fields, 1):
            type_name, options, inner = self.type(sql_type, plain=entry)
            nested += inner
            lines += _indent(f"{type_name} {each} = {number}{options};".split("\n"))
        if nested:
            lines += ["", *_indent(nested)]
        return [*lines, "}"]

    def type(self, sql_type: SqlType, *, plain: bool) -> tuple[str, str, list[str]]:
        """Return a field's label and type, its options, and the messages it needs; a `plain` field is not nullable."""
        match sql_type:
            case Primitive(base) if base in _MESSAGES:
                name, source = _MESSAGES[base]
                self.imports.add(source)
                return name, "", []
            case Primitive(base):
                return (_SCALARS[base] if plain else self.scalar(base)), "", []
            case Decimal(precision, scale):
                self.imports.add("confluent/type/decimal.proto")
                return "confluent.type.Decimal", _DECIMAL_OPTIONS.format(precision=precision, scale=scale), []
            case Array(Array() | Map()):
                raise FormatError("PROTOBUF format does not support ARRAY of ARRAY or MAP")
            case Array(item):
                name, options, inner = self.type(item, plain=True)
                return f"repeated {name}", options, inner
            case Map(_, value):
                name = self.next_name() + "Entry"
                entry = (("key", _STRING), ("value", value))
                return f"repeated {name}", "", self.message(name, entry, entry=True)
            case Struct(fields):
                name = self.next_name()
                return name, "", self.message(name, tuple((each.name, each.type) for each in fields))
            case _:
                raise FormatError(f"PROTOBUF has no type for {sql_type}")

    def scalar(self, base: Base) -> str:
        """Return a scalar type in the chosen nullable form."""
        if self.nullable == "WRAPPER":
            self.imports.add("google/protobuf/wrappers.proto")
            return f"google.protobuf.{_WRAPPERS[base]}"
        return f"optional {_SCALARS[base]}" if self.nullable == "OPTIONAL" else _SCALARS[base]

    def next_name(self) -> str:
        """Return an unused message name."""
        self.count += 1
        return f"ConnectDefault{self.count}"


_STRING = Primitive(Base.STRING)


def _indent(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]


def schema_text(columns: tuple[Column, ...], name: str | None, nullable: str | None) -> str:
    """Write the schema of a message with one field per column.

    `name` is the full name of the message. `nullable` is OPTIONAL, WRAPPER or None: how fields represent NULL.

    Raises:
        FormatError: protobuf does not support the type of a column.
    """
    package, _, simple = (name or DEFAULT_NAME).rpartition(".")
    writer = _Writer((nullable or "").upper(), 0 if name else 1)
    message = writer.message(simple, tuple((column.name, column.type) for column in columns))
    parts = ['syntax = "proto3";', ""]
    if package:
        parts += [f"package {package};", ""]
    if writer.imports:
        parts += [*(f'import "{each}";' for each in sorted(writer.imports)), ""]
    return "\n".join([*parts, *message, ""])
