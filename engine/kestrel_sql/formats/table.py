"""Finds a format by its name: a new one is one more module of `known`, and its name here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kestrel_sql.arrow.late import ArrowType
from kestrel_sql.errors import FormatError
from kestrel_sql.formats.format import Format
from kestrel_sql.formats.known import avro, delimited, json, json_sr, kafka, none, protobuf, protobuf_nosr
from kestrel_sql.formats.null_keys import named_keys
from kestrel_sql.formats.properties import FULL_NAME
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, Decoder, Encoder, SerdeSpec
from kestrel_sql.plan.step import FormatInfo

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        module.FORMAT.name: module.FORMAT
        for module in (avro, delimited, json, json_sr, kafka, none, protobuf, protobuf_nosr)
    }
)


def format_of(name: str) -> Format:
    """Return a format by its case-insensitive name.

    Raises:
        FormatError: there is no such format.
    """
    found = FORMATS.get(name.upper())
    if found is None:
        raise FormatError(f"Unknown format: {name}", hint=f"the formats are {', '.join(sorted(FORMATS))}")
    return found


def decoder(spec: SerdeSpec) -> Decoder:
    """Return the function from bytes to a row; it raises SerdeError for bytes that it cannot decode."""
    return format_of(spec.format.format).decoder(spec)


def encoder(spec: SerdeSpec) -> Encoder:
    """Return the function from a row to bytes; it raises SerdeError for rows that it cannot encode."""
    encode, named = format_of(spec.format.format).encoder(spec), named_keys(spec.columns)
    return encode if named is None else lambda row: encode(None if row is None else named(row))


def bulk_decoder(spec: SerdeSpec, types: Sequence[ArrowType]) -> BulkDecoder | None:
    """Return the bulk decoder for a spec, from the bytes of records to one array per column; None if there is none."""
    found = FORMATS.get(spec.format.format)
    return found.bulk_decoder(spec, types) if found is not None and spec.columns else None


def bulk_encoder(spec: SerdeSpec, types: Sequence[ArrowType]) -> BulkEncoder | None:
    """Return the bulk encoder for a spec, from one array per column to the bytes of records; None if there is none."""
    found = FORMATS.get(spec.format.format)
    return found.bulk_encoder(spec, types) if found is not None and spec.columns else None


def check_properties(info: FormatInfo) -> None:
    """Reject properties that the format does not have.

    Raises:
        FormatError: a property is unknown, the schema name is blank, or the format is unknown.
    """
    found = format_of(info.format)
    unknown = [name for name, _ in info.properties if name not in found.properties]
    if unknown:
        raise FormatError(f"{found.name} does not support the following configs: [{', '.join(unknown)}]")
    full_name = info.property(FULL_NAME)
    if full_name is not None and not full_name.strip():
        raise FormatError(f"{FULL_NAME} cannot be empty. Format configuration: {{{FULL_NAME}={full_name}}}")
