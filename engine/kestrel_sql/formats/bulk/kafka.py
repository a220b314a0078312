"""KAFKA in bulk: numbers are byte-swapped, strings are checked and copied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.formats.bulk.codec import binary_of, buffers_of, require, text_of, values_of
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, SerdeSpec
from kestrel_sql.types.sql_types import BIGINT, DOUBLE, INTEGER, STRING, SqlType

_LAYOUTS: dict[SqlType, str] = {INTEGER: ">i4", BIGINT: ">i8", DOUBLE: ">f8"}


def decoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkDecoder | None:
    """Return a decoder of one numeric or string column."""
    sql_type = spec.columns[0].type
    if len(spec.columns) != 1:
        return None
    if sql_type == STRING:
        return lambda data: [text_of(data)]
    layout = _LAYOUTS.get(sql_type)
    if layout is None:
        return None
    big = np.dtype(layout)

    def decode(data: pa.BinaryArray) -> list[pa.Array]:
        content, bounds = buffers_of(data)
        require((np.diff(bounds) == big.itemsize).all())
        return [pa.array(np.frombuffer(content[bounds[0] : bounds[-1]], dtype=big).astype(big.newbyteorder("=")))]

    return decode


def encoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkEncoder | None:
    """Return an encoder of one numeric or string column."""
    sql_type = spec.columns[0].type
    if len(spec.columns) != 1:
        return None
    if sql_type == STRING:
        return lambda columns: pc.cast(columns[0], pa.binary())
    layout = _LAYOUTS.get(sql_type)
    if layout is None:
        return None
    big = np.dtype(layout)

    def encode(columns: Sequence[pa.Array]) -> pa.BinaryArray:
        content = values_of(columns[0]).astype(big).view(np.uint8)
        data = binary_of(content, np.full(len(columns[0]), big.itemsize))
        return pc.if_else(columns[0].is_valid(), data, None) if columns[0].null_count else data

    return encode
