"""Columns of rows as Arrow arrays, which become lists only when a step asks for their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.arrow.columns import taken, to_array, to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.dataflow.rows import Cells, Chosen, Columns, Indices, NumberCells, Schema
from kestrel_sql.expressions.columns import Column
from kestrel_sql.operators.number_columns import NumberColumn
from kestrel_sql.types.schema import Column as SchemaColumn

Numbers = npt.NDArray[np.int64]

_NOTHING = -1
"""The index of NULL."""


class Arrow:
    """The values of a column as an Arrow array, of which some are taken when they are first asked for."""

    __slots__ = ("_values", "at", "whole")

    def __init__(self, array: pa.Array, at: Indices | None = None) -> None:
        self.whole, self.at = array, None if isinstance(at, range) and len(at) == len(array) else at
        self._values: Column | None = None

    @property
    def array(self) -> pa.Array:
        """The values."""
        if self.at is not None:
            self.whole, self.at = _form_of(self.at).of(self.whole), None
        return self.whole

    def values(self) -> Column:
        """Return the values."""
        if self._values is None:
            self._values = to_list(self.array)
        return self._values

    def take(self, at: Indices) -> Cells:
        """Return the values at some indices."""
        return Arrow(self.whole, at if self.at is None else chosen(numbers_of(self.at)[numbers_of(at)]))

    def numbered(self, sources: Sequence[Columns]) -> tuple[Indices, Sequence[int]] | None:
        """Number the rows of `sources` that differ: the first of each, and for each row its number."""
        given = [[each.array for each in own if isinstance(each, Arrow)] for own in sources]
        if sum(map(len, given)) < sum(map(len, sources)):
            return None
        arrays = [pa.concat_arrays(column) if len(column) > 1 else column[0] for column in zip(*given, strict=True)]
        codes: Numbers | None = None
        for each in arrays:
            encoded = each.dictionary_encode(null_encoding="encode")
            own = encoded.indices.to_numpy().astype(np.int64)
            codes = own if codes is None else codes * len(encoded.dictionary) + own
            if each is not arrays[0]:
                codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
        assert codes is not None  # noqa: S101
        firsts = np.empty(int(codes.max(initial=-1)) + 1, np.int64)
        firsts[codes[::-1]] = np.arange(len(codes))[::-1]
        return firsts.tolist(), codes.tolist()

    def numbers(self, kind: str | None) -> NumberColumn:
        """Return the values as numbers of a type of NumPy; without one, only which are not NULL."""
        array = self.array
        known = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.ones(len(array), dtype=bool)
        if kind is None:
            return NumberColumn(np.zeros(len(array), np.int64), known)
        return NumberColumn(
            (array.fill_null(0) if array.null_count else array).to_numpy().astype(kind, copy=False), known
        )

    def pick(
        self, sources: Sequence[Columns], more: Sequence[Sequence[object]], at: Indices, columns: Schema
    ) -> Columns:
        """Return the columns of rows at some indices of `sources`, one after the other, then `more`; NULL at -1."""
        given = [
            _alike([_as_arrow(cells, column) for cells, column in zip(own, columns, strict=True)]) for own in sources
        ]
        places = numbers_of(at)
        if any(own[0].at is not None for own in given):
            starts = np.cumsum([0, *(len(own[0].whole) for own in given)])
            known = [start + own[0].indices() for start, own in zip(starts, given, strict=False)]
            stored = starts[-1] + np.arange(len(more))
            places = np.where(places < 0, _NOTHING, np.concatenate([*known, stored])[places])
        picked = chosen(places)
        arrays = [[own[place].whole for own in given] for place in range(len(columns))]
        for place, column in enumerate(columns if more else ()):
            arrays[place].append(to_array([row[place] for row in more], column))
        return [Arrow(own[0] if len(own) == 1 else pa.concat_arrays(own), picked) for own in arrays]

    def indices(self) -> Numbers:
        """The indices of the values in the whole array."""
        return np.arange(len(self.whole)) if self.at is None else numbers_of(self.at)


def _alike(columns: list[Arrow]) -> list[Arrow]:
    """Columns of which all have the same indices still to be taken, as the first one stands for all; or none has."""
    return columns if all(each.at is columns[0].at for each in columns) else [Arrow(each.array) for each in columns]


def _as_arrow(cells: Cells, column: SchemaColumn) -> Arrow:
    return cells if isinstance(cells, Arrow) else Arrow(array_of_cells(cells, column))


def array_of_cells(cells: Cells, column: SchemaColumn) -> pa.Array:
    """Make an array of the column's type of the values of cells.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type.
    """
    if isinstance(cells, NumberCells):
        kind, own = to_arrow(column.type), cells.column
        values = own.values.astype(kind.to_pandas_dtype(), copy=False)
        return pa.array(values, kind, mask=None if own.valid.all() else ~own.valid)
    return to_array(cells.values(), column)


class _Form:
    """Indices as Arrow takes them, made once for all columns."""

    __slots__ = ("_indices", "_start", "numbers")

    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self._start, self._indices = numbers, 0, None
        if len(numbers) and (numbers[0] < 0 or not (np.diff(numbers) == 1).all()):
            missing = numbers < 0
            self._indices = pa.array(numbers, mask=missing if missing.any() else None)
        elif len(numbers):
            self._start = int(numbers[0])

    def of(self, array: pa.Array) -> pa.Array:
        """Return the values at the indices, without a copy if those are consecutive; NULL at -1."""
        if self._indices is None:
            return array.slice(self._start, len(self.numbers))
        return taken(array, self._indices)


def _form_of(at: Indices) -> _Form:
    if not isinstance(at, Chosen):
        return _Form(np.asarray(at, dtype=np.int64))
    if at.form is None:
        at.form = _Form(np.asarray(at, dtype=np.int64))
    found: _Form = at.form
    return found


def chosen(numbers: Numbers) -> Chosen:
    """Indices as those of a carrier, whose list nobody needs."""
    found = Chosen(())
    found.form = _Form(numbers)
    return found


def numbers_of(at: Indices) -> Numbers:
    """Return indices as an array."""
    if isinstance(at, range):
        return np.arange(at.start, at.stop, dtype=np.int64)
    return _form_of(at).numbers
