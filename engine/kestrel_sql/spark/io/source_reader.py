"""Turns the records of a source's topic into structs of its relation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.columns import to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.dataflow.graph import SourceRead
from kestrel_sql.dataflow.log_entries import DESERIALIZATION, FATAL, base64_of, failed
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.windowed_key import split
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.spark.envelope import struct_field
from kestrel_sql.spark.io.serdes import Errors, Mask, SerdeReader


class Read(msgspec.Struct, frozen=True):
    """The rows of records: structs, window bounds (ms), and log entries by index in the batch.

    `dropped` has the indices of the records that give no row.
    """

    structs: pa.StructArray
    starts: pa.Array
    ends: pa.Array
    log: Mapping[int, dict[str, Any]]
    dropped: Collection[int]


class SourceReader:
    """Decodes the records of one source."""

    def __init__(self, source: SourceRead) -> None:
        self.source = source
        self._key = SerdeReader(source.key)
        self._value = SerdeReader(source.value)
        self._type = struct_field(source.relation).type
        self._types = {field.name: field.type for field in self._type}

    def read(self, batch: pa.RecordBatch) -> Read:
        """Decode a batch whose records are all for this source (columns of `WIRE_INPUT`)."""
        data, bounds, wrong = _split_keys(batch.column("key"), self.source.window)
        key = self._key.read(data)
        value = self._value.read(batch.column("value"))
        log = {at: self._entry("value", error, batch, at) for at, error in value.errors.items()}
        log.update({at: self._entry("key", error, batch, at) for at, error in (*key.errors.items(), *wrong.items())})
        alive = np.ones(len(batch), dtype=bool)
        alive[list(log)] = False
        whole = [*value.arrays, *self._added(batch), *key.arrays, *(bounds if self.source.window is not None else ())]
        parts = [
            _struct(key.arrays, self._types["k"], key.present),
            _struct(whole, self._types["v"], value.present),
        ]
        return Read(_struct(parts, self._type, alive), *bounds, {} if self.source.silent else log, log.keys())

    def _added(self, batch: pa.RecordBatch) -> Iterator[pa.Array]:
        """The columns that a source adds between the value and the copy of the key (rules P6.1)."""
        if self.source.headers:
            headers = batch.column("headers").to_pylist()
            for column in self.source.headers:
                yield pa.array([_header(each or (), column.header_key) for each in headers], type=to_arrow(column.type))
        yield from map(batch.column, ("ts",) if self.source.pseudo_version == 0 else ("ts", "part", "off"))

    def _entry(self, part: str, error: SerdeError, batch: pa.RecordBatch, at: int) -> dict[str, object]:
        kind = FATAL if self.source.strict else DESERIALIZATION
        record = base64_of(batch.column(part)[at].as_py()) if self.source.logs_rows else None
        return failed(kind, f"{self.source.logger}.deserializer", f"{part}: {error}", error, record)


def _header(headers: Sequence[Mapping[str, object]], name: str | None) -> object:
    if name is None:
        return [{"KEY": header["key"], "VALUE": header["value"]} for header in headers]
    return next((header["value"] for header in reversed(headers) if header["key"] == name), None)


def _split_keys(
    keys: pa.BinaryArray, info: WindowInfo | None
) -> tuple[pa.BinaryArray, tuple[pa.Array, pa.Array], Errors]:
    """Split keys into the bare keys and window bounds, with the errors of keys that contain no window."""
    if info is None:
        nothing = pa.nulls(len(keys), pa.int64())
        return keys, (nothing, nothing), {}
    bare: list[bytes | None] = []
    starts: list[int | None] = []
    ends: list[int | None] = []
    errors: dict[int, SerdeError] = {}
    for at, key in enumerate(to_list(keys)):
        inner: bytes | None = None
        window: tuple[int | None, int | None] = (None, None)
        try:
            if key is not None:
                inner, window = split(key, info)
        except SerdeError as error:
            errors[at] = error
        bare.append(inner)
        starts.append(window[0])
        ends.append(window[1])
    return (
        pa.array(bare, type=pa.binary()),
        (pa.array(starts, type=pa.int64()), pa.array(ends, type=pa.int64())),
        errors,
    )


def _struct(arrays: Sequence[pa.Array], kind: pa.StructType, present: Mask) -> pa.StructArray:
    mask = None if present.all() else pa.array(~present)
    # A row without columns is carried.
    arrays = arrays or [pa.nulls(len(present), field.type) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)
