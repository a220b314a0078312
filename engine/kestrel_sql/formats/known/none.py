"""NONE, and KAFKA without columns: the bytes are passed over, and written as null (rule F6.3)."""

from __future__ import annotations

from kestrel_sql.formats.format import Columns, Format, column_list
from kestrel_sql.formats.serde import Decoder, Encoder, SerdeSpec
from kestrel_sql.formats.spelling import Spelling


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of anything to None."""
    return lambda data: None


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder that always writes null bytes."""
    return lambda row: None


def _check(columns: Columns) -> str | None:
    if not columns:
        return None
    return f"The 'NONE' format can only be used when no columns are defined. Got: {column_list(columns)}"


FORMAT = Format(
    name="NONE",
    decoder=decoder,
    encoder=encoder,
    spelling=Spelling(lambda spec, value: None, lambda spec, data: None),
    check=_check,
    supports_key=lambda _: False,
    supports_many=False,
)
