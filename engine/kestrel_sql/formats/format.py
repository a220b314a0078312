"""Defines what a format is: everything that the engine knows about it, in one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from kestrel_sql.arrow.late import ArrowType
from kestrel_sql.formats.properties import FULL_NAME, SCHEMA_ID
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, Decoder, Encoder, SerdeSpec
from kestrel_sql.formats.spelling import JSON_TEXT, Spelling
from kestrel_sql.plan.step import SerdeFeature
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import STRING, Map, SqlType, parts_of

WRAP = SerdeFeature.WRAP_SINGLES
UNWRAP = SerdeFeature.UNWRAP_SINGLES
BOTH = frozenset({WRAP, UNWRAP})

REGISTERED = frozenset({FULL_NAME, SCHEMA_ID})
"""The properties of formats with schemas in a registry."""

Columns = tuple[Column, ...]


def _no_bulk(spec: SerdeSpec, types: Sequence[ArrowType]) -> None:
    return None


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A format (rules F1).

    A bulk codec handles plain batches only: records of equal shape that need no coercion. It rejects every other batch,
    and the row codec handles that. So the row codec alone defines what records mean, and both agree wherever both
    apply.

    Attributes:
        name: its name, in upper case.
        decoder: makes the function from bytes to a row for a spec.
        encoder: makes the function from a row to bytes.
        bulk_decoder: makes the function from the bytes of records to one array per column, from the Arrow types of the
            columns; None if the spec has none.
        bulk_encoder: makes the function from one array per column to the bytes of records.
        spelling: how cases write its records.
        features: the wrappings of a single column that a statement may choose.
        properties: its properties.
        inheritable: those that a sink inherits from a source of the same format.
        keeps_halves: whether half of a surrogate pair stays as it is (rule U4.9).
        loses_null: whether NULL comes back as the default of its type (rule F9.2).
        loses_empty: whether what is empty comes back as NULL (rule F4.3.3), and a key that is NULL never (rule F4.3.6).
        null_key: what a NULL key of a map comes back as (rule F10.2).
        check: returns why columns are not supported, or None.
        supports_key: whether a derived key column may have a type.
        supports_many: whether a key may have several columns.
    """

    name: str
    decoder: Callable[[SerdeSpec], Decoder]
    encoder: Callable[[SerdeSpec], Encoder]
    bulk_decoder: Callable[[SerdeSpec, Sequence[ArrowType]], BulkDecoder | None] = _no_bulk
    bulk_encoder: Callable[[SerdeSpec, Sequence[ArrowType]], BulkEncoder | None] = _no_bulk
    spelling: Spelling = JSON_TEXT
    features: frozenset[SerdeFeature] = frozenset()
    properties: frozenset[str] = frozenset()
    inheritable: frozenset[str] = frozenset()
    keeps_halves: bool = False
    loses_null: bool = False
    loses_empty: bool = False
    null_key: str | None = "null"
    check: Callable[[Columns], str | None]
    supports_key: Callable[[SqlType], bool] = lambda _: True
    supports_many: bool = True

    @property
    def infers_columns(self) -> bool:
        """Whether its schemas come from a registry."""
        return self.name in LANGUAGES

    @property
    def chooses_wrapping(self) -> bool:
        """Whether a single column may be wrapped or not, so that a key of one column has to say which."""
        return self.features == BOTH


def column_list(columns: Iterable[Column]) -> str:
    """Write columns in brackets, as messages do."""
    return f"[{', '.join(map(str, columns))}]"


def string_keys_only(message: str) -> Callable[[Columns], str | None]:
    """Return a check that answers `message` for a MAP whose keys are no STRINGs."""

    def check(columns: Columns) -> str | None:
        types = (part for column in columns for part in parts_of(column.type))
        return message if any(isinstance(part, Map) and part.key != STRING for part in types) else None

    return check
