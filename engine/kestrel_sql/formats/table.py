"""Finds the codec of a format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kestrel_sql.errors import FormatError
from kestrel_sql.formats import delimited, kafka, none
from kestrel_sql.formats.json import read as json_read
from kestrel_sql.formats.json import write as json_write
from kestrel_sql.formats.null_keys import named_keys
from kestrel_sql.formats.protobuf import unregistered as protobuf_nosr
from kestrel_sql.formats.registered import framing as framed
from kestrel_sql.formats.serde import Codec, Decoder, Encoder, SerdeSpec

FORMATS: Mapping[str, Codec] = MappingProxyType(
    {
        "DELIMITED": Codec(delimited.decoder, delimited.encoder),
        "AVRO": Codec(framed.decoder, framed.encoder),
        "JSON": Codec(json_read.decoder, json_write.encoder),
        "KAFKA": Codec(kafka.decoder, kafka.encoder),
        "JSON_SR": Codec(framed.decoder, framed.encoder),
        "NONE": Codec(none.decoder, none.encoder),
        "PROTOBUF": Codec(framed.decoder, framed.encoder),
        "PROTOBUF_NOSR": Codec(protobuf_nosr.decoder, protobuf_nosr.encoder),
    }
)


def codec_of(spec: SerdeSpec) -> Codec:
    """Return the codec of the spec's format.

    Raises:
        FormatError: there is no such format.
    """
    codec = FORMATS.get(spec.format.format.upper())
    if codec is None:
        raise FormatError(f"Unknown format: {spec.format.format}")
    return codec


def decoder(spec: SerdeSpec) -> Decoder:
    """Return the function from bytes to a row; it raises SerdeError for bytes that it cannot decode."""
    return codec_of(spec).decoder(spec)


def encoder(spec: SerdeSpec) -> Encoder:
    """Return the function from a row to bytes; it raises SerdeError for rows that it cannot encode."""
    encode, named = codec_of(spec).encoder(spec), named_keys(spec.columns)
    return encode if named is None else lambda row: encode(None if row is None else named(row))
