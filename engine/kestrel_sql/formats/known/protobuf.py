"""PROTOBUF: a message in a frame, with a schema of the registry."""

from __future__ import annotations

from kestrel_sql.arrow.late import Late, later
from kestrel_sql.formats.format import REGISTERED, WRAP, Format, string_keys_only
from kestrel_sql.formats.properties import FULL_NAME, NULLABLE, SUBJECT_NAME, UNWRAP_PRIMITIVES
from kestrel_sql.formats.registered import framing
from kestrel_sql.formats.spelling import FRAMED

_BULK = Late("kestrel_sql.formats.bulk.protobuf")

FORMAT = Format(
    name="PROTOBUF",
    loses_null=True,
    null_key="",
    decoder=framing.decoder,
    encoder=framing.encoder,
    bulk_decoder=later(_BULK, "decoder"),
    bulk_encoder=later(_BULK, "encoder"),
    spelling=FRAMED,
    features=frozenset({WRAP}),
    properties=REGISTERED | {UNWRAP_PRIMITIVES, NULLABLE, SUBJECT_NAME},
    inheritable=frozenset({FULL_NAME}),
    check=string_keys_only("PROTOBUF format only supports MAP types with STRING keys"),
)
