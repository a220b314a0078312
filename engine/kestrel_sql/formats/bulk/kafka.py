"""KAFKA in bulk: numbers are byte-swapped, strings are checked and copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.formats.bulk.codec import binary_of, buffers_of, require, text_of, values_of
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, SerdeSpec
from kestrel_sql.types.sql_types import BIGINT, DOUBLE, INTEGER, STRING, SqlType

_LAYOUTS: dict[SqlType, str] = {INTEGER: ">i4", BIGINT: ">i8", DOUBLE: ">f8"}


def _layout(spec: SerdeSpec) -> np.dtype[Any] | None:
    """The big-endian numbers of the only column; None if it has none, or there are several."""
    layout = _LAYOUTS.get(spec.columns[0].type) if len(spec.columns) == 1 else None
    return None if layout is None else np.dtype(layout)


def decoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkDecoder | None:
    """Return a decoder of one numeric or string column."""
    if [column.type for column in spec.columns] == [STRING]:
        return lambda data: [text_of(data)]
    big = _layout(spec)
    if big is None:
        return None

    def decode(data: pa.BinaryArray) -> list[pa.Array]:
        content, bounds = buffers_of(data)
        require((np.diff(bounds) == big.itemsize).all())
        return [pa.array(np.frombuffer(content[bounds[0] : bounds[-1]], dtype=big).astype(big.newbyteorder("=")))]

    return decode


def encoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkEncoder | None:
    """Return an encoder of one numeric or string column."""
    if [column.type for column in spec.columns] == [STRING]:
        return lambda columns: pc.cast(columns[0], pa.binary())
    big = _layout(spec)
    if big is None:
        return None

    def encode(columns: Sequence[pa.Array]) -> pa.BinaryArray:
        content = values_of(columns[0]).astype(big).view(np.uint8)
        data = binary_of(content, np.full(len(columns[0]), big.itemsize))
        return pc.if_else(columns[0].is_valid(), data, None) if columns[0].null_count else data

    return encode
