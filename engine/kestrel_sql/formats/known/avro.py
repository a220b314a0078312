"""AVRO: a record in a frame, with an Avro schema of the registry."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kestrel_sql.arrow.late import Late, later
from kestrel_sql.formats.format import BOTH, REGISTERED, Columns, Format, string_keys_only
from kestrel_sql.formats.registered import framing
from kestrel_sql.formats.spelling import FRAMED
from kestrel_sql.types.sql_types import Struct, parts_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_check_keys = string_keys_only("Avro only supports MAPs with STRING keys")


def _check(columns: Columns) -> str | None:
    reason = _check_keys(columns)
    if reason is not None:
        return reason
    for name in _field_names(columns):
        avro_name = name.replace(".", "_")
        if _NAME.fullmatch(avro_name):
            continue
        problem = "character in" if _NAME.match(avro_name) else "initial character"
        return f"Schema is not compatible with Avro: Illegal {problem}: {avro_name}"
    return None


def _field_names(columns: Columns) -> Iterator[str]:
    for column in columns:
        yield column.name
        for part in parts_of(column.type):
            if isinstance(part, Struct):
                yield from (field.name for field in part.fields)


_BULK = Late("kestrel_sql.formats.bulk.avro")

FORMAT = Format(
    name="AVRO",
    decoder=framing.decoder,
    encoder=framing.encoder,
    bulk_decoder=later(_BULK, "decoder"),
    bulk_encoder=later(_BULK, "encoder"),
    spelling=FRAMED,
    features=BOTH,
    properties=REGISTERED,
    check=_check,
)
