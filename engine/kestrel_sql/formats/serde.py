"""Defines codecs: a spec determines a decoder from bytes to rows and an encoder from rows to bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import msgspec

from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.errors import RegistryError, SerdeError
from kestrel_sql.formats.registry.memory import NO_SCHEMAS, RegistryView
from kestrel_sql.java.utf16 import encodable
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.types.schema import Column

Row = tuple[Any, ...]
"""Values in column order; `kestrel_sql.types.sql_types` lists the Python type of each SQL type."""

Convert = Callable[[Any], Any]
"""Converts a value that is not None; None in its place means no conversion."""

Decoder = Callable[[bytes | None], Row | None]
Encoder = Callable[[Row | None], bytes | None]

BulkDecoder = Callable[[ArrowArray], list[ArrowArray]]
"""Decodes the bytes of records, none of them null, to one array per column.

Raises:
    NotPlainError: a record needs the row codec.
"""

BulkEncoder = Callable[[Sequence[ArrowArray]], ArrowArray]
"""Encodes one array per column to the bytes of records, NULL for tombstones; raises as `BulkDecoder` does."""


class Side(Enum):
    """The part of a record, key or value, that a codec handles; the value is its name in messages and subjects."""

    KEY = "key"
    VALUE = "value"


class SerdeSpec(msgspec.Struct, frozen=True):
    """Everything that determines the encoding of the keys or the values of a topic; it pickles.

    `columns` are those of the key or of the value only. `topic` determines the subject and occurs in messages.
    `schemas` is a snapshot of the schema registry, which formats without a registry ignore.
    """

    format: FormatInfo
    columns: tuple[Column, ...]
    features: frozenset[SerdeFeature] = frozenset()
    side: Side = Side.VALUE
    topic: str = ""
    schemas: RegistryView = NO_SCHEMAS

    @property
    def unwrapped(self) -> bool:
        """Whether the bytes are the bare value of the only column."""
        return len(self.columns) == 1 and SerdeFeature.UNWRAP_SINGLES in self.features

    @property
    def subject(self) -> str:
        """The subject in the schema registry."""
        return f"{self.topic}-{self.side.value}"


_UNFIT = "A value does not fit the format or its column"


class ConversionError(Exception):
    """A value does not fit its column; `path` leads to it, such as `.F[2]`, and grows as the error propagates."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def prepend(self, parent: str) -> None:
        """Prepend the name of the enclosing value to the path; the caller re-raises the error."""
        self.path = parent + self.path


def guard_decoder(spec: SerdeSpec, message: str, decode: Callable[[bytes], Row]) -> Decoder:
    """Wrap `decode`: null bytes become None, and every failure becomes a SerdeError with `message` (rules E2).

    An error of the schema registry stays as it is: the record is not at fault and must not be dropped.
    """

    def guarded(data: bytes | None) -> Row | None:
        if data is None:
            return None
        try:
            return decode(data)
        except (SerdeError, RegistryError):
            raise
        except Exception as error:
            raise failure(message, error) from error

    return guarded


def guard_encoder(spec: SerdeSpec, encode: Callable[[Row], bytes | None]) -> Encoder:
    """Wrap `encode`: a null row becomes null bytes, and every failure becomes a SerdeError."""
    message = f"Error serializing message to topic: {spec.topic}"

    def guarded(row: Row | None) -> bytes | None:
        if row is None:
            return None
        try:
            return encode(row)
        except (SerdeError, RegistryError):
            raise
        except Exception as error:
            raise failure(message, error) from error

    return guarded


def of_items(convert: Convert | None) -> Convert | None:
    """Return the conversion of a list by that of its items, which are not None; None if there is none."""
    if convert is None:
        return None
    return lambda items: [None if item is None else convert(item) for item in items]


def of_members(convert: Convert | None) -> Convert | None:
    """Return the conversion of a dict by that of its values, as `of_items` does."""
    if convert is None:
        return None
    return lambda members: {key: None if item is None else convert(item) for key, item in members.items()}


def failure(message: str, error: Exception) -> SerdeError:
    """Return a SerdeError with the reason and path of `error` in its message; the reason may repeat the value."""
    if isinstance(error, ConversionError):
        at = f", path: ${error.path}"
        return SerdeError(encodable(f"{message}. {error.reason}{at}"), public=f"{message}. {_UNFIT}{at}")
    return SerdeError(f"{message}. {describe(error)}", public=f"{message}. {_UNFIT}")


def describe(error: BaseException) -> str:
    """Return the message of an error, which UTF-8 can hold, or the name of its class if the message is empty."""
    return encodable(str(error)) or type(error).__name__


def causes(error: BaseException) -> list[str]:
    """Return the messages of the causes of `error`, outermost first, without its own (rules E8)."""
    messages: list[str] = []
    cause = error.__cause__
    while cause is not None:
        messages.append(describe(cause))
        cause = cause.__cause__
    return messages
