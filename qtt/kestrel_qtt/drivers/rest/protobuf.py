"""Answers of queries as protobuf: the schema of their rows, and the rows in protobuf's text format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from google.protobuf import text_format
from google.protobuf.message_factory import GetMessageClass

from kestrel_qtt.cases.model import Actual
from kestrel_sql.formats.protobuf import generate as proto_text
from kestrel_sql.formats.protobuf.schema import load
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import encoder
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.types.schema import Column, Role


def proto_elements(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Iterator[Actual]:
    """The header and the rows of an answer.

    Raises:
        FormatError: a column of a type that protobuf does not have.
    """
    values = tuple(replace(column, role=Role.VALUE) for column in columns)
    text = proto_text.schema_text(values, None, None)
    yield {"header": {"protoSchema": text}}
    encode = encoder(SerdeSpec(FormatInfo("PROTOBUF_NOSR"), values))
    message = GetMessageClass(load(text, {}).at((0,)))
    for row in rows:
        yield {"row": text_format.MessageToString(message.FromString(encode(tuple(row)) or b""))}
