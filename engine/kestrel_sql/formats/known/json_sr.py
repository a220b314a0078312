"""JSON_SR: JSON in a frame, with a JSON schema of the registry."""

from __future__ import annotations

from kestrel_sql.arrow.late import Late, later
from kestrel_sql.formats.format import BOTH, REGISTERED, Format
from kestrel_sql.formats.known import json
from kestrel_sql.formats.registered import framing
from kestrel_sql.formats.spelling import FRAMED

_BULK = Late("kestrel_sql.formats.bulk.json_registered")

FORMAT = Format(
    name="JSON_SR",
    null_key=None,
    decoder=framing.decoder,
    encoder=framing.encoder,
    bulk_decoder=later(_BULK, "decoder"),
    bulk_encoder=later(_BULK, "encoder"),
    spelling=FRAMED,
    features=BOTH,
    properties=REGISTERED,
    keeps_halves=True,
    check=json.FORMAT.check,
)
