"""Reads JSON in bulk with Arrow's JSON reader.

Arrow's reader coerces nothing, so it is stricter than ksqlDB. Where it succeeds, ksqlDB reads the same values, except
for names that differ by case only, minus zero, infinity, and times of day out of range; this module checks for those.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kestrel_sql.formats.bulk.codec import NotPlainError, buffers_of, require, text_of, values_of
from kestrel_sql.formats.json.text import MAX_NUMBER_DIGITS
from kestrel_sql.formats.serde import BulkDecoder, SerdeSpec
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, STRING, TIME, TIMESTAMP, Array, SqlType
from kestrel_sql.types.time_units import DAY_MS

_PLAIN = frozenset({BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, TIME})
_MAX_OPENINGS = 64
"""The limit of opening brackets in a record: Arrow nests types as deep as the text, and frees them recursively."""

_SEPARATOR = b"\n"

_LONG_NUMBER = "[-+.eE0-9]{1000}"
"""What may be a number beyond Jackson's limit; a regular expression of Arrow counts no further."""


def decoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkDecoder | None:
    """Return a decoder of wrapped rows with plain columns and arrays of plain items; None if the spec differs."""
    if spec.unwrapped or not all(is_plain(column.type) for column in spec.columns):
        return None
    if len({column.name.upper() for column in spec.columns}) < len(spec.columns):
        # One member may be the value of several columns.
        return None
    return ObjectReader(spec.columns, types).decode


def is_plain(sql_type: SqlType) -> bool:
    """Whether Arrow's reader reads a type without coercion."""
    return sql_type.item in _PLAIN if isinstance(sql_type, Array) else sql_type in _PLAIN


class ObjectReader:
    """Reads objects to columns. It remembers the name that the data uses for each column, taken from the first record.

    `exact` allows only the exact column names.
    """

    def __init__(self, columns: Sequence[Column], types: Sequence[pa.DataType], *, exact: bool = False) -> None:
        self._columns = columns
        self._types = types
        self._exact = exact
        self._names: list[str] | None = [column.name for column in columns] if exact else None

    def decode(self, data: pa.BinaryArray) -> list[pa.Array]:
        """Read records, none of them null.

        Raises:
            NotPlainError: a record is not an object, or a value needs a coercion.
        """
        joined = _joined(data)
        if self._names is None:
            self._names = self._names_in(data[0].as_py())
        table = self._parse(joined, len(data), self._names)
        renamed = self._renamed(table, self._names)
        if renamed != self._names:
            self._names = renamed
            table = self._parse(joined, len(data), renamed)
            require(self._renamed(table, renamed) == renamed)
        _check_unread(table, self._names, data)
        arrays = [_flat(table.column(name)) for name in self._names]
        for array, column in zip(arrays, self._columns, strict=True):
            _check(array, column.type)
        return arrays

    def _names_in(self, record: bytes) -> list[str]:
        try:
            members = orjson.loads(record)
        except orjson.JSONDecodeError:
            raise NotPlainError from None
        require(type(members) is dict)
        upper = {name.upper(): name for name in members}
        return [c.name if c.name in members else upper.get(c.name, c.name) for c in self._columns]

    def _parse(self, joined: pa.Buffer, rows: int, names: Sequence[str]) -> pa.Table:
        fields = dict(zip(names, self._types, strict=True))
        # One member may be the value of two columns, `a` and `A`.
        require(all(fields[name] == kind for name, kind in zip(names, self._types, strict=True)))
        options = pj.ParseOptions(explicit_schema=pa.schema(list(fields.items())), unexpected_field_behavior="infer")
        reading = pj.ReadOptions(use_threads=False, block_size=joined.size + 1)
        try:
            table = pj.read_json(pa.BufferReader(joined), read_options=reading, parse_options=options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise NotPlainError from None
        require(table.num_rows == rows)
        return table

    def _renamed(self, table: pa.Table, names: Sequence[str]) -> list[str]:
        """Replace names by those of unexpected members that match a column in another case."""
        renamed = list(names)
        known = set(table.column_names) if self._exact else set(names)
        for name in table.column_names:
            if name in known:
                continue
            for at, column in enumerate(self._columns):
                if name == column.name or name.upper() == column.name:
                    require(renamed[at] == names[at] and table.column(names[at]).null_count == table.num_rows)
                    renamed[at] = name
        return renamed


def _joined(data: pa.BinaryArray) -> pa.Buffer:
    """Join the records by line feeds.

    Each record starts with an opening brace and ends with a closing one, and JSON strings hold no raw line feeds. So a
    line that ends between a closing and an opening brace ends between two records, and if Arrow finds as many rows as
    there are records, each row is one record.
    """
    content, bounds = buffers_of(data)
    starts, ends = bounds[:-1], bounds[1:]
    require((ends - starts > 1).all())
    require((content[starts] == ord("{")).all() and (content[ends - 1] == ord("}")).all())
    text = text_of(data)
    inside = content[bounds[0] : bounds[-1]]
    if np.count_nonzero((inside == ord("[")) | (inside == ord("{"))) > len(data) + _MAX_OPENINGS:
        for opening in ("[", "{"):
            require(pc.max(pc.count_substring(text, opening)).as_py() <= _MAX_OPENINGS)
    lines = pa.ListArray.from_arrays(pa.array([0, len(data)], type=pa.int32()), data)
    joined: pa.Buffer = pc.binary_join(lines, _SEPARATOR).buffers()[2]
    return joined


def _check_unread(table: pa.Table, read: Sequence[str], data: pa.BinaryArray) -> None:
    """Refuse what Arrow accepts in members that no column reads, and Jackson does not.

    NaN, infinities, long numbers.
    """
    for name in set(table.column_names) - set(read):
        require(_is_finite(_flat(table.column(name))))
    if pc.max(pc.binary_length(data)).as_py() > MAX_NUMBER_DIGITS:
        require(not pc.any(pc.match_substring_regex(data, _LONG_NUMBER)).as_py())


def _is_finite(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        return all(map(_is_finite, array.flatten()))
    if pa.types.is_list(array.type):
        return _is_finite(array.flatten())
    return not pa.types.is_floating(array.type) or bool(np.isfinite(values_of(array)).all())


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _check(array: pa.Array, sql_type: SqlType) -> None:
    if isinstance(sql_type, Array):
        _check(array.flatten(), sql_type.item)
    elif sql_type == DOUBLE:
        numbers = values_of(array)
        require(np.isfinite(numbers).all() and not (np.signbit(numbers) & (numbers == 0)).any())
    elif sql_type == TIME and len(array) > array.null_count:
        bounds = pc.min_max(array)
        require(bounds["min"].as_py() >= 0 and bounds["max"].as_py() <= DAY_MS)
