"""What a format codec is: a spec goes in, a function from bytes to a row or back comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kestrel_sql.errors import RegistryError, SerdeError
from kestrel_sql.formats.registry.memory import NO_SCHEMAS, RegistryView
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.types.schema import Column

Row = tuple[Any, ...]
"""Values in column order; see `kestrel_sql.types.sql_types` for the Python value of each type."""

Decoder = Callable[[bytes | None], Row | None]
Encoder = Callable[[Row | None], bytes | None]


class Side(Enum):
    """The part of a record that a codec is for; the value is the word used in messages and subjects."""

    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class SerdeSpec:
    """Everything that determines how one side of a topic is written; it pickles.

    `columns` are the columns of that side only. `topic` gives the subject and occurs in messages. `schemas` is a snapshot of the
    schema registry; formats without a registry ignore it.
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
        """The subject of the schema registry."""
        return f"{self.topic}-{self.side.value}"


@dataclass(frozen=True, slots=True)
class Codec:
    """The two directions of one format; each makes a function specialised for a spec."""

    decoder: Callable[[SerdeSpec], Decoder]
    encoder: Callable[[SerdeSpec], Encoder]


class ConversionError(Exception):
    """A value that does not fit its column; `path` grows while the error travels outwards, such as `.F[2]`."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def enter(self, parent: str) -> None:
        """Put the name of the value that holds this one before the path; the error is then raised on."""
        self.path = parent + self.path


def guard_decoder(spec: SerdeSpec, message: str, decode: Callable[[bytes], Row]) -> Decoder:
    """Wrap `decode` so that null bytes give None and every failure is a SerdeError called `message` (rules E2).

    A registry that does not answer is no fault of the record, which must not be dropped for it.
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
    """Wrap `encode` so that a null row gives null bytes and every failure is a SerdeError."""
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


def failure(message: str, error: Exception) -> SerdeError:
    """A SerdeError with the reason and path of `error` in its sentence."""
    if isinstance(error, ConversionError):
        return SerdeError(f"{message}. {error.reason}, path: ${error.path}")
    return SerdeError(f"{message}. {describe(error)}")


def describe(error: Exception) -> str:
    """The text of an error, or the name of its class if it has none."""
    return str(error) or type(error).__name__


def causes(error: BaseException) -> list[str]:
    """The messages of what led to `error`, outermost first and without its own (rules E8)."""
    found: list[str] = []
    cause = error.__cause__
    while cause is not None:
        found.append(str(cause) or type(cause).__name__)
        cause = cause.__cause__
    return found
