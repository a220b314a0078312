"""NONE: no columns, always null bytes."""

from __future__ import annotations

from kestrel_sql.formats.serde import Decoder, Encoder, Row, SerdeSpec


def decoder(spec: SerdeSpec) -> Decoder:
    """Read anything as the row without columns; null bytes as None."""

    def decode(data: bytes | None) -> Row | None:
        return None if data is None else ()

    return decode


def encoder(spec: SerdeSpec) -> Encoder:
    """Write null bytes."""

    def encode(row: Row | None) -> bytes | None:
        return None

    return encode
