"""Columns of rows that come from Arrow and go back to it, and become lists only when a step asks for their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.dataflow.rows import Cells, Chosen, Indices, Part
from kestrel_sql.expressions.columns import Column
from kestrel_sql.spark.io.columns import to_array, to_list, values_at
from kestrel_sql.spark.types import arrow_struct
from kestrel_sql.types.schema import Column as SchemaColumn

Numbers = npt.NDArray[np.int64]


class Arrow:
    """The values of a column as an Arrow array, of which some are taken when they are first asked for."""

    __slots__ = ("_array", "_at", "_values")

    def __init__(self, array: pa.Array, at: Indices | None = None) -> None:
        self._array, self._at = array, at
        self._values: Column | None = None

    @property
    def array(self) -> pa.Array:
        """The values."""
        if self._at is not None:
            self._array, self._at = values_at(self._array, numbers_of(self._at)), None
        return self._array

    def values(self) -> Column:
        """Return the values."""
        if self._values is None:
            self._values = to_list(self.array)
        return self._values

    def take(self, at: Indices) -> Cells:
        """Return the values at some indices."""
        return Arrow(self.array, at)


def numbers_of(at: Indices) -> Numbers:
    """Return indices as an array."""
    if isinstance(at, range):
        return np.arange(at.start, at.stop, dtype=np.int64)
    if not isinstance(at, Chosen):
        return np.asarray(at, dtype=np.int64)
    if at.form is None:
        at.form = np.asarray(at, dtype=np.int64)
    found: Numbers = at.form
    return found


def part_of(structs: pa.StructArray) -> Part:
    """Return the part of a struct column; NULL structs lack it."""
    present = structs.is_valid().to_numpy(zero_copy_only=False).tolist() if structs.null_count else None
    columns = [] if structs.type == arrow_struct(()) else structs.flatten()
    return Part([Arrow(column) for column in columns], len(structs), present)


def structs_of(part: Part, columns: Sequence[SchemaColumn]) -> pa.StructArray:
    """Return a part as a struct column.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its type.
    """
    kind = arrow_struct(columns)
    mask = None if part.present is None else pa.array([not there for there in part.present], pa.bool_())
    arrays = [
        cells.array if isinstance(cells, Arrow) else to_array(cells.values(), column)
        for cells, column in zip(part.cells, columns, strict=True)
    ]
    if not columns:
        arrays = [pa.nulls(part.size, field.type) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)
