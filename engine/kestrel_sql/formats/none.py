"""NONE, and KAFKA without columns: the bytes are passed over, and written as null (rule F6.3)."""

from __future__ import annotations

from kestrel_sql.formats.serde import Decoder, Encoder, Row, SerdeSpec


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of anything to None."""

    def decode(data: bytes | None) -> Row | None:
        return None

    return decode


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder that always writes null bytes."""

    def encode(row: Row | None) -> bytes | None:
        return None

    return encode
