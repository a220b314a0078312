"""Writes JSON in bulk: each column becomes a column of JSON strings, and Arrow concatenates them row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.formats.bulk.codec import buffers_of, require, values_of
from kestrel_sql.formats.serde import BulkEncoder, SerdeSpec
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, STRING, TIME, TIMESTAMP, SqlType

Texts = Callable[[pa.Array], pa.Array]
"""Converts values to JSON strings; NULL stays NULL."""

_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7
"""In this range Java writes doubles without an exponent, as Arrow does."""


def encoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkEncoder | None:
    """Return an encoder of wrapped rows with plain columns; None if the spec differs."""
    return None if spec.unwrapped else row_encoder(spec.columns, b"")


def row_encoder(columns: Sequence[Column], before: bytes) -> BulkEncoder | None:
    """Return an encoder of plain columns as objects that follow the bytes `before`; None if a column is not plain."""
    if not all(column.type in _TEXTS for column in columns):
        return None
    names = [orjson.dumps(column.name).decode() for column in columns]
    texts = [_TEXTS[column.type] for column in columns]
    header = pa.scalar(before, type=pa.binary())

    def encode(arrays: Sequence[pa.Array]) -> pa.BinaryArray:
        pieces: list[pa.Array | str] = []
        for at, (name, to_texts, array) in enumerate(zip(names, texts, arrays, strict=True)):
            strings = to_texts(array)
            pieces += [f"{',' if at else '{'}{name}:", strings.fill_null("null") if strings.null_count else strings]
        rows = pc.cast(pc.binary_join_element_wise(*pieces, "}", ""), pa.binary())
        return pc.binary_join_element_wise(header, rows, pa.scalar(b"", type=pa.binary())) if before else rows

    return encode


def _numbers(column: pa.Array) -> pa.Array:
    return pc.cast(column, pa.string())


def _doubles(column: pa.Array) -> pa.Array:
    numbers = values_of(column)
    magnitudes = np.abs(numbers)
    require(((magnitudes == 0) | ((magnitudes >= _PLAIN_MIN) & (magnitudes < _PLAIN_MAX))).all())
    texts = pc.cast(column, pa.string())
    whole = numbers == np.floor(numbers)
    return pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, ".0", ""), texts) if whole.any() else texts


def _strings(column: pa.Array) -> pa.Array:
    content, bounds = buffers_of(column)
    used = content[bounds[0] : bounds[-1]]
    if ((used < 0x20) | (used == ord('"')) | (used == ord("\\"))).any():
        escaped = [None if text is None else orjson.dumps(text).decode() for text in column.to_pylist()]
        return pa.array(escaped, type=pa.string())
    return pc.binary_join_element_wise('"', column, '"', "")


_TEXTS: dict[SqlType, Texts] = {
    BOOLEAN: _numbers,
    INTEGER: _numbers,
    BIGINT: _numbers,
    DATE: _numbers,
    TIME: _numbers,
    TIMESTAMP: _numbers,
    DOUBLE: _doubles,
    STRING: _strings,
}
