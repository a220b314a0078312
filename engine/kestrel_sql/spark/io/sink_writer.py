"""Turns the structs of a sink's relation into records of its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.columns import to_list, to_rows
from kestrel_sql.dataflow.graph import SinkWrite
from kestrel_sql.dataflow.log_entries import FATAL, PROCESSING, failed, json_row
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.windowed_columns import join_all
from kestrel_sql.formats.windowed_key import join
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.io.serdes import Errors, SerdeWriter


class Written(msgspec.Struct, frozen=True):
    """The records of rows: bytes of keys and values, and for rows that cannot be written a log entry, by index."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    log: Mapping[int, dict[str, Any]]


class SinkWriter:
    """Encodes the rows of one sink."""

    def __init__(self, sink: SinkWrite) -> None:
        self.sink = sink
        self.column = struct_column(sink.relation.number)
        self._key = SerdeWriter(sink.key)
        self._value = SerdeWriter(sink.value)

    def write(self, structs: pa.StructArray, starts: pa.Array, ends: pa.Array) -> Written:
        """Encode structs of the sink's relation; the window bounds (ms) go into the keys of windowed topics."""
        parts = dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))
        keys, wrong_keys = _encoded(self._key, parts["k"])
        if self.sink.window is not None:
            keys, wrong_windows = _with_windows(keys, starts, ends, self.sink.window)
            wrong_keys = {**wrong_windows, **wrong_keys}
        values, wrong_values = _encoded(self._value, parts["v"])
        log = {at: self._entry(error, parts["v"].slice(at, 1)) for at, error in {**wrong_values, **wrong_keys}.items()}
        return Written(keys, values, log)

    def _entry(self, error: SerdeError, rows: pa.StructArray) -> dict[str, object]:
        kind = PROCESSING if self.sink.guarded else FATAL
        (row,) = to_rows(rows)
        record = json_row(row) if self.sink.logs_rows and row is not None else None
        return failed(kind, f"{self.sink.logger}.serializer", str(error), error, record)


def _with_windows(
    keys: pa.BinaryArray, starts: pa.Array, ends: pa.Array, window: WindowInfo
) -> tuple[pa.BinaryArray, Errors]:
    with suppress(NotPlainError):
        return join_all(keys, starts, ends, window), {}
    found: list[bytes | None] = []
    errors: dict[int, SerdeError] = {}
    for at, (key, start, end) in enumerate(zip(to_list(keys), to_list(starts), to_list(ends), strict=True)):
        try:
            found.append(None if key is None else join(key, (start, end), window))
        except SerdeError as error:
            errors[at] = error
            found.append(None)
    return pa.array(found, type=pa.binary()), errors


def _encoded(writer: SerdeWriter, structs: pa.StructArray) -> tuple[pa.BinaryArray, Errors]:
    present = np.asarray(structs.is_valid().to_numpy(zero_copy_only=False))
    arrays: Sequence[pa.Array] = structs.flatten()
    return writer.write(arrays, present)
