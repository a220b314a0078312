"""Framed records of several schemas in one batch, as they come while producers change to a new version."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.formats import bulk_numbers as n
from engine.formats.bulk_base import BulkDecoder, require

_MAX_SCHEMAS = 8
"""How many schemas are worth a pass of their own."""


def by_schema(decode: BulkDecoder) -> BulkDecoder:
    """Let `decode` read the records of each schema id in turn, and put the rows back into their order."""

    def decode_all(data: pa.BinaryArray) -> list[pa.Array]:
        cursor = n.open_records(data)
        n.skip_header(cursor, b"\x00")
        ids = n.read_fixed(cursor, ">u4")
        if (ids == ids[0]).all():
            return decode(data)
        known, schema_of = np.unique(ids, return_inverse=True)
        require(len(known) <= _MAX_SCHEMAS)
        parts = [decode(data.take(pa.array(np.nonzero(schema_of == at)[0]))) for at in range(len(known))]
        # Where each record stands once those of the first schema come first, then those of the second.
        back = pa.array(np.argsort(np.argsort(schema_of, kind="stable")))
        return [pa.concat_arrays(columns).take(back) for columns in zip(*parts, strict=True)]

    return decode_all
