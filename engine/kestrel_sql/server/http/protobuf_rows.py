"""Rows as protobuf: the schema text of a header, and messages in base64."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace

from kestrel_sql.formats.protobuf import generate
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import encoder
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.types.schema import Column, Role


def protobuf_schema(columns: Sequence[Column]) -> str:
    """The proto3 text of rows.

    Raises:
        FormatError: a column of a type that protobuf does not have.
    """
    return generate.schema_text(_values(columns), None, None)


def protobuf_writer(columns: Sequence[Column]) -> Callable[[tuple[object, ...]], str]:
    """A function that writes a row."""
    encode = encoder(SerdeSpec(FormatInfo("PROTOBUF_NOSR"), _values(columns)))
    return lambda values: base64.b64encode(encode(values) or b"").decode("ascii")


def _values(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(replace(column, role=Role.VALUE) for column in columns)
