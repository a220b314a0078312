"""Many groups of plain values as columns: a batch reads and writes them without an object for each.

The rows are sorted by a hash of their keys, so that a batch finds those that it needs without an index of all. Groups
that single rows have changed are objects beside the columns, and become columns when they are many or a batch of many
rows comes: to merge few took longer than to compute them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.operators.group_state import COLUMNS, STATES, TIMESTAMP, Group
from kestrel_sql.operators.number_columns import Numbers

_KEY = [pa.binary(), pa.uint32()]
"""The first columns: the key of a group, and its hash."""

_TIME = len(_KEY)

_INTEGERS = [pa.int8(), pa.int16(), pa.int32()]


class GroupColumns(Mapping[bytes, Group]):
    """Groups by key; one that somebody asks for is an object from then on.

    After the key, its hash and the timestamp (ms) follow the non-aggregate columns, and for each aggregate a column if
    its states are numbers, or one for each number if they are lists.
    """

    def __init__(self, rows: pa.RecordBatch, shape: Sequence[int], opened: Mapping[bytes, Group]) -> None:
        """Take groups in the order of their hashes, and groups as objects.

        The shape is how many columns each aggregate has.
        """
        self._shape, self._opened = shape, dict(opened)
        self._written: tuple[bytes, ...] = ()
        self._hold(rows)

    @classmethod
    def of(cls, groups: Mapping[bytes, Group], fresh: Group, columns: Sequence[pa.DataType]) -> GroupColumns:
        """Take groups with non-aggregate columns of these types; `fresh` is a group without rows."""
        shape = shape_of(fresh)
        kinds = [*_KEY, pa.int64(), *columns, *[pa.null()] * sum(shape)]
        made = cls(_batch([pa.array([], kind) for kind in kinds]), shape, groups)
        made._close()
        return made

    def __getitem__(self, key: bytes) -> Group:
        if key not in self._opened:
            at = self._place(key)
            if at < 0:
                raise KeyError(key)
            self._opened[key] = self._group([column[at].as_py() for column in self._columns[_TIME:]])
        return self._opened[key]

    def __setitem__(self, key: bytes, group: Group) -> None:
        self._opened[key] = group

    def __iter__(self) -> Iterator[bytes]:
        keys, _, *columns = (column.to_pylist() for column in self._columns)
        stored = {key: self._group(row) for key, *row in zip(keys, *columns, strict=True)}
        self._opened = {**stored, **self._opened}
        return iter([*self._opened])

    def __len__(self) -> int:
        return len(self._hashes) + sum(self._place(key) < 0 for key in self._opened)

    def homes(self, keys: Sequence[bytes]) -> list[dict[bytes, Group]]:
        """Return where the group of each key is, or is to be: among those that are objects."""
        closed = [key for key in keys if key not in self._opened]
        if closed and len(self._hashes):
            at = self._places(closed, pa.array(closed, pa.binary()), np.fromiter(map(crc32, closed), np.uint32))
            held = np.flatnonzero(at >= 0)
            rows = self._rows.take(pa.array(at[held]))
            columns = [column.to_pylist() for column in rows.columns[_TIME:]]
            for place, *row in zip(held.tolist(), *columns, strict=True):
                self._opened[closed[place]] = self._group(row)
        return [self._opened] * len(keys)

    def flaw(self, shape: Sequence[int], columns: Sequence[pa.DataType]) -> str | None:
        """Say how the groups differ from those with this shape and non-aggregate columns of these types."""
        kinds = self._rows.schema.types[_TIME:]
        wanted = [pa.int64(), *columns]
        fits = (
            [*self._shape] == [*shape]
            and len(kinds) == len(wanted) + sum(shape)
            and all(map(_is_like, kinds, wanted))
            and all(map(_is_number, kinds[len(wanted) :]))
            and all(_has_shape(group, len(columns), shape) for group in self._opened.values())
        )
        if fits:
            return None
        return f"its groups have aggregates of {[*self._shape]} columns of {', '.join(map(str, kinds))}"

    def encoded(self, many: int) -> list[object]:
        """The groups as values that msgpack writes, with integers in columns of as few bits as they need.

        As `many` groups beside the columns become columns.
        """
        if len(self._opened) >= many:
            self._close()
        if not self._written:
            rows = _batch([*self._columns[:_TIME], *map(_narrow, self._columns[_TIME:])])
            self._written = rows.schema.serialize().to_pybytes(), rows.serialize().to_pybytes()
        return [[*self._shape], *self._written, self._opened]

    @classmethod
    def decoded(cls, stored: Sequence[Any]) -> GroupColumns:
        """Return what `encoded` wrote.

        Raises:
            ValueError: the bytes are damaged.
        """
        shape, schema, rows, opened = stored
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(rows), pa.ipc.read_schema(pa.py_buffer(schema)))
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(str(error)) from error
        kinds = batch.schema.types
        if kinds[:_TIME] != _KEY or min(shape, default=1) < 1 or sum(shape) >= len(kinds) - _TIME:
            raise ValueError(f"aggregates of {shape} columns of {kinds}")
        found = cls(batch, shape, opened)
        found._hold(batch, (schema, rows))
        if (found._hashes[1:] < found._hashes[:-1]).any():
            raise ValueError("groups out of order")
        return found

    def _hold(self, rows: pa.RecordBatch, written: tuple[bytes, ...] = ()) -> None:
        """Keep rows, and their schema and themselves as bytes if they were written."""
        self._rows, self._columns, self._written = rows, rows.columns, written
        self._hashes = rows.column(1).to_numpy()

    def _group(self, row: Sequence[object]) -> Group:
        first = len(row) - sum(self._shape)
        states = [own if len(own) > 1 else own[0] for own in self._by_call(row[first:])]
        return [row[0], [*row[1:first]], states]

    def _by_call(self, parts: Sequence[object]) -> list[list[object]]:
        """The columns of each aggregate."""
        given = iter(parts)
        return [[next(given) for _ in range(count)] for count in self._shape]

    def _places(self, keys: Sequence[bytes], wanted: pa.BinaryArray, hashes: Numbers) -> Numbers:
        """The index of each key, -1 without one."""
        if not len(self._hashes):
            return np.full(len(keys), -1)
        near = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        alike = self._hashes[near] == hashes
        same = alike & pc.equal(self._columns[0].take(pa.array(near)), wanted).to_numpy(zero_copy_only=False)
        found = np.where(same, near, -1)
        for at in np.flatnonzero(alike & ~same).tolist():
            found[at] = self._place(keys[at])
        return found

    def _place(self, key: bytes) -> int:
        """The index of a key, -1 without one; different keys may have one hash."""
        hashed, keys = np.uint32(crc32(key)), self._columns[0]
        at = int(self._hashes.searchsorted(hashed))
        while at < len(self._hashes) and self._hashes[at] == hashed:
            if keys[at].as_py() == key:
                return at
            at += 1
        return -1

    def _close(self) -> None:
        """Turn objects into columns again."""
        opened, self._opened = self._opened, {}
        if not opened:
            return
        keys, groups = [*opened], [*opened.values()]
        lists = [[group[TIMESTAMP] for group in groups]]
        lists += map(list, zip(*(group[COLUMNS] for group in groups), strict=True))
        lists += map(list, zip(*(_parts(group[STATES]) for group in groups), strict=True))
        kinds = self._rows.schema.types[_TIME:]
        made = [pa.array(values, _widest(kind)) for values, kind in zip(lists, kinds, strict=True)]
        wanted, hashes = pa.array(keys, pa.binary()), np.fromiter(map(crc32, keys), np.uint32, len(keys))
        new = _batch([wanted, pa.array(hashes), *made])
        at, count = self._places(keys, wanted, hashes), self._rows.num_rows
        held, absent = at >= 0, np.flatnonzero(at < 0)
        source = np.arange(count)
        source[at[held]] = count + np.flatnonzero(held)
        if len(absent):
            absent = absent[np.argsort(hashes[absent], kind="stable")]
            source = np.insert(source, np.searchsorted(self._hashes, hashes[absent], "right"), count + absent)
        # A column in which all states were NULL had no type so far, and one of integers that of the largest.
        schema = pa.unify_schemas([self._rows.schema, new.schema], promote_options="permissive")
        self._hold(pa.concat_batches([self._rows.cast(schema), new.cast(schema)]).take(pa.array(source)))


def shape_of(group: Group) -> list[int]:
    """Return how many columns each aggregate of a group has."""
    return [len(state) if isinstance(state, list) else 1 for state in group[STATES]]


def _is_like(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column holds values of a type; those of integers have as few bits as they need."""
    return bool(kind == wanted or pa.types.is_null(kind) or (pa.types.is_integer(kind) and pa.types.is_integer(wanted)))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _has_shape(group: object, columns: int, shape: Sequence[int]) -> bool:
    if not isinstance(group, list) or len(group) != len((TIMESTAMP, COLUMNS, STATES)):
        return False
    _, copied, states = group
    return (
        isinstance(copied, list) and isinstance(states, list) and len(copied) == columns and shape_of(group) == [*shape]
    )


def _batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, [str(at) for at in range(len(columns))])


def _narrow(column: pa.Array) -> pa.Array:
    """A column of integers of as few bits as they need."""
    if not pa.types.is_integer(column.type):
        return column
    low, high = (end.as_py() or 0 for end in pc.min_max(column).values())
    bits = max(low.bit_length(), high.bit_length()) + 1
    return next((column.cast(kind) for kind in _INTEGERS if bits <= kind.bit_width < column.type.bit_width), column)


def _widest(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_null(kind):
        return None
    return pa.int64() if pa.types.is_integer(kind) else kind


def _numbers(state: object) -> list[object]:
    return state if isinstance(state, list) else [state]


def _parts(states: Sequence[object]) -> list[object]:
    """The numbers in states."""
    return [number for state in states for number in _numbers(state)]
