"""NONE: no columns; the bytes are always null."""

from __future__ import annotations

from kestrel_sql.formats.serde import Decoder, Encoder, Row, SerdeSpec


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of anything to the row without columns; null bytes become None."""

    def decode(data: bytes | None) -> Row | None:
        return None if data is None else ()

    return decode


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder that always writes null bytes."""

    def encode(row: Row | None) -> bytes | None:
        return None

    return encode
