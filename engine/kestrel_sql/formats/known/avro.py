"""AVRO: a record in a frame, with an Avro schema of the registry."""

from __future__ import annotations

from collections.abc import Iterator

from kestrel_sql.arrow.late import Late, later
from kestrel_sql.errors import FormatError
from kestrel_sql.formats.avro.schema import field_name
from kestrel_sql.formats.format import BOTH, REGISTERED, Columns, Format, string_keys_only
from kestrel_sql.formats.registered import framing
from kestrel_sql.formats.spelling import FRAMED
from kestrel_sql.types.sql_types import Struct, parts_of

_check_keys = string_keys_only("Avro only supports MAPs with STRING keys")


def _check(columns: Columns) -> str | None:
    reason = _check_keys(columns)
    if reason is not None:
        return reason
    try:
        for name in _field_names(columns):
            field_name(name)
    except FormatError as error:
        return error.message
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
    null_key=None,
    decoder=framing.decoder,
    encoder=framing.encoder,
    bulk_decoder=later(_BULK, "decoder"),
    bulk_encoder=later(_BULK, "encoder"),
    spelling=FRAMED,
    features=BOTH,
    properties=REGISTERED,
    check=_check,
)
