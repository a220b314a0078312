"""Finds the bulk codec of a format.

A bulk codec handles plain batches only: records of equal shape that need no coercion. It rejects every other batch, and
the row codec handles that. So the row codec alone defines what records mean, and both agree wherever both apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from kestrel_sql.formats.bulk import avro as bulk_avro
from kestrel_sql.formats.bulk import json_read as bulk_json
from kestrel_sql.formats.bulk import json_registered as bulk_json_sr
from kestrel_sql.formats.bulk import json_write as bulk_json_write
from kestrel_sql.formats.bulk import kafka as bulk_kafka
from kestrel_sql.formats.bulk import protobuf as bulk_protobuf
from kestrel_sql.formats.bulk.codec import BulkDecoder, BulkEncoder
from kestrel_sql.formats.serde import SerdeSpec

Types = Sequence[pa.DataType]
"""The Arrow types of a spec's columns."""

_DECODERS: Mapping[str, Callable[[SerdeSpec, Types], BulkDecoder | None]] = MappingProxyType(
    {
        "AVRO": bulk_avro.decoder,
        "JSON": bulk_json.decoder,
        "JSON_SR": bulk_json_sr.decoder,
        "KAFKA": bulk_kafka.decoder,
        "PROTOBUF": bulk_protobuf.decoder,
        "PROTOBUF_NOSR": bulk_protobuf.bare_decoder,
    }
)

_ENCODERS: Mapping[str, Callable[[SerdeSpec, Types], BulkEncoder | None]] = MappingProxyType(
    {
        "AVRO": bulk_avro.encoder,
        "JSON": bulk_json_write.encoder,
        "JSON_SR": bulk_json_sr.encoder,
        "KAFKA": bulk_kafka.encoder,
        "PROTOBUF": bulk_protobuf.encoder,
        "PROTOBUF_NOSR": bulk_protobuf.bare_encoder,
    }
)


def bulk_decoder(spec: SerdeSpec, types: Types) -> BulkDecoder | None:
    """Return the bulk decoder for a spec, from the bytes of records to one array per column; None if there is none."""
    make = _DECODERS.get(spec.format.format.upper())
    return make(spec, types) if make is not None and spec.columns else None


def bulk_encoder(spec: SerdeSpec, types: Types) -> BulkEncoder | None:
    """Return the bulk encoder for a spec, from one array per column to the bytes of records; None if there is none."""
    make = _ENCODERS.get(spec.format.format.upper())
    return make(spec, types) if make is not None and spec.columns else None
