"""JSON: an object with a member for each column, or the bare value of a single column (rules F4.2)."""

from __future__ import annotations

from kestrel_sql.arrow.late import Late, later
from kestrel_sql.formats.format import BOTH, Format, string_keys_only
from kestrel_sql.formats.json import read, write

_BULK_READ = Late("kestrel_sql.formats.bulk.json_read")
_BULK_WRITE = Late("kestrel_sql.formats.bulk.json_write")

FORMAT = Format(
    name="JSON",
    decoder=read.decoder,
    encoder=write.encoder,
    bulk_decoder=later(_BULK_READ, "decoder"),
    bulk_encoder=later(_BULK_WRITE, "encoder"),
    features=BOTH,
    keeps_halves=True,
    check=string_keys_only("JSON only supports MAP types with STRING keys"),
)
