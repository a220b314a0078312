"""Key and value serdes over columns.

Whole batches with a bulk codec where the format has one, or else record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.arrow.columns import array_of, to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.arrow.values import to_arrow_value
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, Decoder, Encoder, Row, SerdeSpec
from kestrel_sql.formats.table import bulk_decoder, bulk_encoder, decoder, encoder
from kestrel_sql.types.carried import is_carried

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
Errors = Mapping[int, SerdeError]
"""Errors by index in the batch."""

WORTHWHILE = 128
"""From this many records on a bulk codec is faster: the calls of Arrow and NumPy have a fixed cost.

`ONLY=codecs python -m tests.bench thresholds` finds that Avro pays from 64 on, Protobuf from 128, JSON written from 128
and read from 256, where reading 64 of it in bulk takes twice as long.
"""

PART = 500
"""The number of records that are processed one by one if the bulk codec cannot process one of them."""

PATIENCE = 3
"""After this many failures of the bulk codec in a row it is tried only now and then."""


class Decoded(msgspec.Struct, frozen=True):
    """The keys or the values of records: an array for each column, which records have a key or value, and errors."""

    arrays: list[pa.Array]
    present: Mask
    errors: Errors


class _Trust:
    """Decides from recent results whether to try the bulk codec."""

    def __init__(self) -> None:
        self._failures = 0
        self._waiting = 0

    def tries(self) -> bool:
        """Return whether to try it for this batch."""
        if self._failures < PATIENCE:
            return True
        self._waiting += 1
        return self._waiting % (PATIENCE * PATIENCE) == 0

    def record(self, done: bool) -> None:
        """Record whether it could process any part of a batch."""
        self._failures = 0 if done else self._failures + 1


class SerdeReader:
    """Decodes the keys or the values of a topic into columns."""

    def __init__(self, spec: SerdeSpec) -> None:
        self._types = [to_arrow(column.type) for column in spec.columns]
        self._to_arrow = [to_arrow_value(column.type) for column in spec.columns]
        self._one: Decoder = decoder(spec)
        self._many: BulkDecoder | None = None if _has_carried(spec) else bulk_decoder(spec, self._types)
        self._trust = _Trust()

    def read(self, data: pa.BinaryArray) -> Decoded:
        """Decode the bytes of a batch; null bytes and errors give NULL."""
        if self._many is None or len(data) - data.null_count < WORTHWHILE or not self._trust.tries():
            return self._singly(data)
        if data.null_count == 0:
            return self._in_bulk(data, self._many)
        present = np.asarray(data.is_valid().to_numpy(zero_copy_only=False))
        (positions,) = np.nonzero(present)
        decoded = self._in_bulk(data.drop_null(), self._many)
        indices = scattered(positions, len(data))
        there = np.zeros(len(data), dtype=bool)
        there[positions] = decoded.present
        return Decoded(
            [a.take(indices) for a in decoded.arrays],
            there,
            {int(positions[at]): error for at, error in decoded.errors.items()},
        )

    def _in_bulk(self, data: pa.BinaryArray, many: BulkDecoder) -> Decoded:
        whole = _plain(many, data)
        tried = [whole] if whole is not None else [_plain(many, part) for part in _parts(data)]
        self._trust.record(done=any(each is not None for each in tried))
        if whole is not None:
            return whole
        return _joined([plain or self._singly(part) for plain, part in zip(tried, _parts(data), strict=True)])

    def _singly(self, data: pa.BinaryArray) -> Decoded:
        rows: list[Row | None] = []
        errors: dict[int, SerdeError] = {}
        for at, one in enumerate(to_list(data)):
            try:
                rows.append(self._one(one))
            except SerdeError as error:
                errors[at] = error
                rows.append(None)
        present = np.fromiter((row is not None for row in rows), dtype=bool, count=len(rows))
        return Decoded(self._columns(rows), present, errors)

    def _columns(self, rows: list[Row | None]) -> list[pa.Array]:
        nothing = (None,) * len(self._types)
        turned: Sequence[Sequence[Any]] = list(zip(*(nothing if row is None else row for row in rows), strict=True))
        turned = turned or [()] * len(self._types)
        plan = zip(turned, self._to_arrow, self._types, strict=True)
        return [
            array_of(values if convert is None else [convert(v) for v in values], kind)
            for values, convert, kind in plan
        ]


def _has_carried(spec: SerdeSpec) -> bool:
    return any(is_carried(column.type) for column in spec.columns)


def _plain(many: BulkDecoder, data: pa.BinaryArray) -> Decoded | None:
    try:
        return Decoded(many(data), np.ones(len(data), dtype=bool), {})
    except (NotPlainError, pa.ArrowException):
        return None


def _parts(data: pa.Array) -> Iterator[pa.Array]:
    for start in range(0, len(data), PART):
        yield data.slice(start, PART)


def _joined(parts: Sequence[Decoded]) -> Decoded:
    errors: dict[int, SerdeError] = {}
    start = 0
    for part in parts:
        errors.update({start + at: error for at, error in part.errors.items()})
        start += len(part.present)
    arrays = [pa.concat_arrays(each) for each in zip(*(part.arrays for part in parts), strict=True)]
    return Decoded(arrays, np.concatenate([part.present for part in parts]), errors)


def scattered(positions: Positions, count: int) -> pa.Array:
    """Return the indices for `take` that put value i at `positions[i]` of `count` rows, and NULL in the others."""
    indices = np.zeros(count, dtype=np.int32)
    indices[positions] = np.arange(len(positions), dtype=np.int32)
    missing = np.ones(count, dtype=bool)
    missing[positions] = False
    return pa.array(indices, mask=missing)


class SerdeWriter:
    """Encodes columns as the keys or the values of a topic."""

    def __init__(self, spec: SerdeSpec) -> None:
        types = [to_arrow(column.type) for column in spec.columns]
        self._width = len(spec.columns)
        self._one: Encoder = encoder(spec)
        self._many: BulkEncoder | None = None if _has_carried(spec) else bulk_encoder(spec, types)
        self._trust = _Trust()

    def write(self, arrays: Sequence[pa.Array], present: Mask) -> tuple[pa.BinaryArray, Errors]:
        """Encode the rows of a batch; NULL where `present` is false or a row cannot be encoded."""
        (positions,) = np.nonzero(present)
        if self._many is None or len(positions) < WORTHWHILE or not self._trust.tries():
            return self._singly(arrays, present)
        if len(positions) == len(present):
            return self._in_bulk(arrays, self._many)
        data, errors = self._in_bulk([array.take(pa.array(positions)) for array in arrays], self._many)
        return data.take(scattered(positions, len(present))), {
            int(positions[at]): error for at, error in errors.items()
        }

    def _in_bulk(self, arrays: Sequence[pa.Array], many: BulkEncoder) -> tuple[pa.BinaryArray, Errors]:
        whole = _written(many, arrays)
        if whole is not None:
            self._trust.record(done=True)
            return whole, {}
        found: list[pa.BinaryArray] = []
        errors: dict[int, SerdeError] = {}
        done = False
        for start in range(0, len(arrays[0]), PART):
            part = [array.slice(start, PART) for array in arrays]
            data = _written(many, part)
            done = done or data is not None
            if data is None:
                data, wrong = self._singly(part, np.ones(len(part[0]), dtype=bool))
                errors.update({start + at: error for at, error in wrong.items()})
            found.append(data)
        self._trust.record(done=done)
        return pa.concat_arrays(found), errors

    def _singly(self, arrays: Sequence[pa.Array], present: Mask) -> tuple[pa.BinaryArray, Errors]:
        found: list[bytes | None] = []
        errors: dict[int, SerdeError] = {}
        for at, (row, there) in enumerate(zip(self._rows(arrays, len(present)), present.tolist(), strict=True)):
            try:
                found.append(self._one(row if there else None))
            except SerdeError as error:
                errors[at] = error
                found.append(None)
        return pa.array(found, type=pa.binary()), errors

    def _rows(self, arrays: Sequence[pa.Array], count: int) -> list[Row]:
        # A struct without columns has a child nevertheless.
        return list(zip(*map(to_list, arrays), strict=True)) if self._width else [()] * count


def _written(many: BulkEncoder, arrays: Sequence[pa.Array]) -> pa.BinaryArray | None:
    try:
        for array in arrays:
            # Half of a surrogate pair is not UTF-8.
            array.validate(full=True)
        return many(arrays)
    except (NotPlainError, pa.ArrowException):
        return None
