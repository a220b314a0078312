"""Parses .proto files to descriptors; skips services, extensions, and options that schemas do not need."""

from __future__ import annotations

import re

import msgspec
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from kestrel_sql.errors import FormatError

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\.?[A-Za-z_][\w.]*|[+-]?\d[\w.+-]*|[{}()\[\]<>=;,:.+-])""",
    re.DOTALL,
)
_PARAMETER = re.compile(r'(?:value:"(-?\d+)",?key:"(precision|scale)"|key:"(precision|scale)",?value:"(-?\d+)")')
_SCALARS = {
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "fixed64": FieldDescriptorProto.TYPE_FIXED64,
    "fixed32": FieldDescriptorProto.TYPE_FIXED32,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "sfixed32": FieldDescriptorProto.TYPE_SFIXED32,
    "sfixed64": FieldDescriptorProto.TYPE_SFIXED64,
    "sint32": FieldDescriptorProto.TYPE_SINT32,
    "sint64": FieldDescriptorProto.TYPE_SINT64,
}
_LABELS = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_SKIPPED = frozenset({"option", "reserved", "extensions"})
_MAX_NESTING = 32


class ProtoFile(msgspec.Struct):
    """A parsed file: its descriptor, and (precision, scale) of decimal fields by message name and field number."""

    descriptor: FileDescriptorProto
    decimals: dict[tuple[str, int], tuple[int, int]] = {}


def parse(text: str, name: str) -> ProtoFile:
    """Parse the text of the file called `name`.

    Raises:
        FormatError: the text is not a .proto file.
    """
    parser = _Parser(_tokens(text), ProtoFile(FileDescriptorProto(name=name)))
    try:
        return parser.file()
    except (IndexError, ValueError) as error:
        raise FormatError(f"Not a protobuf schema: {error}") from error


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormatError(f"Not a protobuf schema: unexpected {text[at]!r}")
        if match["token"]:
            tokens.append(match["token"])
        at = match.end()
    return tokens


class _Parser(msgspec.Struct):
    tokens: list[str]
    result: ProtoFile
    at: int = 0
    proto3: bool = False

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self) -> str:
        return self.tokens[self.at]

    def expect(self, token: str) -> None:
        actual = self.next()
        if actual != token:
            raise FormatError(f"Not a protobuf schema: expected '{token}', found '{actual}'")

    def skip_statement(self) -> None:
        """Skip to the end of a statement or block."""
        depth = 0
        while True:
            token = self.next()
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
            if depth == 0 and token in (";", "}"):
                return

    def file(self) -> ProtoFile:
        descriptor = self.result.descriptor
        while self.at < len(self.tokens):
            match self.next():
                case "syntax":
                    self.expect("=")
                    descriptor.syntax = self.next()[1:-1]
                    self.proto3 = descriptor.syntax == "proto3"
                    self.expect(";")
                case "package":
                    descriptor.package = self.next()
                    self.expect(";")
                case "import":
                    self.imported(descriptor)
                case "message":
                    self.message(descriptor.message_type.add(), descriptor.package, 0)
                case "enum":
                    self.enum(descriptor.enum_type.add())
                case ";":
                    pass
                case "option" | "service" | "extend":
                    self.skip_statement()
                case other:
                    raise FormatError(f"Not a protobuf schema: unexpected '{other}'")
        return self.result

    def imported(self, descriptor: FileDescriptorProto) -> None:
        token = self.next()
        if token in ("public", "weak"):
            token = self.next()
        descriptor.dependency.append(token[1:-1])
        self.expect(";")

    def message(self, message: DescriptorProto, scope: str, depth: int) -> None:
        if depth > _MAX_NESTING:
            raise FormatError("Not a protobuf schema: messages are nested too deeply")
        message.name = self.next()
        full_name = f"{scope}.{message.name}" if scope else message.name
        optionals: list[FieldDescriptorProto] = []
        self.expect("{")
        while self.peek() != "}":
            self.member(message, full_name, depth, optionals)
        self.expect("}")
        for each in optionals:
            # `optional` of proto3 is a oneof with one member; such oneofs come after the real ones.
            each.proto3_optional = True
            each.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add().name = f"_{each.name}"

    def member(
        self, message: DescriptorProto, full_name: str, depth: int, optionals: list[FieldDescriptorProto]
    ) -> None:
        token = self.next()
        if token == "message" and self.tokens[self.at + 1] == "{":
            self.message(message.nested_type.add(), full_name, depth + 1)
        elif token == "enum" and self.tokens[self.at + 1] == "{":
            self.enum(message.enum_type.add())
        elif token == "oneof" and self.tokens[self.at + 1] == "{":
            self.oneof(message, full_name)
        elif token == "map" and self.peek() == "<":
            self.map_field(message)
        elif token in _SKIPPED or token == "extend":
            self.skip_statement()
        elif token != ";":
            self.plain_field(message, full_name, token, optionals)

    def plain_field(
        self, message: DescriptorProto, full_name: str, token: str, optionals: list[FieldDescriptorProto]
    ) -> None:
        label = _LABELS.get(token)
        added = self.field(message, full_name, self.next() if label is not None else token)
        added.label = label or FieldDescriptorProto.LABEL_OPTIONAL
        if token == "optional" and self.proto3:
            optionals.append(added)

    def field(self, message: DescriptorProto, full_name: str, type_name: str) -> FieldDescriptorProto:
        added = message.field.add()
        added.label = FieldDescriptorProto.LABEL_OPTIONAL
        _set_type(added, type_name)
        added.name = self.next()
        self.expect("=")
        added.number = int(self.next(), 0)
        options = self.options()
        parameters = {a or d: int(b or c) for b, a, d, c in _PARAMETER.findall(options)}
        if parameters:
            self.result.decimals[full_name, added.number] = (
                parameters.get("precision", 64),
                parameters.get("scale", 0),
            )
        self.expect(";")
        return added

    def options(self) -> str:
        """Skip `[…]` and return its text without blanks."""
        if self.peek() != "[":
            return ""
        start, depth = self.at, 0
        while True:
            token = self.next()
            depth += (token == "[") - (token == "]")
            if depth == 0:
                return "".join(self.tokens[start : self.at])

    def oneof(self, message: DescriptorProto, full_name: str) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add().name = self.next()
        self.expect("{")
        while self.peek() != "}":
            token = self.next()
            if token == "option":
                self.skip_statement()
            else:
                self.field(message, full_name, token).oneof_index = index
        self.expect("}")

    def map_field(self, message: DescriptorProto) -> None:
        self.expect("<")
        key = self.next()
        self.expect(",")
        value = self.next()
        self.expect(">")
        added = message.field.add()
        added.name = self.next()
        self.expect("=")
        added.number = int(self.next(), 0)
        self.options()
        self.expect(";")
        entry = message.nested_type.add()
        entry.name = "".join(part[:1].upper() + part[1:] for part in added.name.split("_")) + "Entry"
        entry.options.map_entry = True
        for number, (name, type_name) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add()
            part.name, part.number, part.label = name, number, FieldDescriptorProto.LABEL_OPTIONAL
            _set_type(part, type_name)
        added.label = FieldDescriptorProto.LABEL_REPEATED
        added.type_name = entry.name

    def enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self.next()
        self.expect("{")
        while self.peek() != "}":
            token = self.next()
            if token == "option" and self.peek() == "allow_alias":
                enum.options.allow_alias = self.tokens[self.at + 2] == "true"
                self.skip_statement()
            elif token in _SKIPPED:
                self.skip_statement()
            elif token != ";":
                value = enum.value.add()
                value.name = token
                self.expect("=")
                value.number = int(self.next(), 0)
                self.options()
                self.expect(";")
        self.expect("}")


def _set_type(added: FieldDescriptorProto, type_name: str) -> None:
    scalar = _SCALARS.get(type_name)
    if scalar is None:
        added.type_name = type_name
    else:
        added.type = scalar
