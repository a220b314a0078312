"""Answers of queries as protobuf: the schema of their rows, and the rows in protobuf's text format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from google.protobuf import text_format
from google.protobuf.message_factory import GetMessageClass

from engine.formats import proto_text
from engine.formats.base import SerdeSpec
from engine.formats.proto_schema import load
from engine.formats.table import encoder
from engine.plan.step import FormatInfo
from engine.queries.transient import Row
from engine.types.schema import Column, Role
from qtt.model import Actual


def proto_elements(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[Actual]:
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
        yield {"row": text_format.MessageToString(message.FromString(encode(row.values) or b""))}
