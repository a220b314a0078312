"""The rows of relations from Arrow batches, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.types import arrow_struct
from kestrel_sql.dataflow.arrow_cells import Arrow, Numbers, array_of_cells, chosen, numbers_of
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Indices, Part, Rows
from kestrel_sql.spark.envelope import parts_of, struct_column
from kestrel_sql.types.schema import Column as SchemaColumn


def _part_at(structs: pa.StructArray, at: Indices) -> Part:
    """The part of some rows of a struct column; NULL structs lack it."""
    present = None
    if structs.null_count:
        there = structs.is_valid().to_numpy(zero_copy_only=False)[numbers_of(at)]
        present = None if there.all() else there.tolist()
    columns = [] if structs.type == arrow_struct(()) else structs.flatten()
    return Part([Arrow(column, at) for column in columns], len(at), present)


def structs_of(part: Part, columns: Sequence[SchemaColumn]) -> pa.StructArray:
    """Return a part as a struct column.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its type.
    """
    kind = arrow_struct(columns)
    mask = None if part.present is None else pa.array([not there for there in part.present], pa.bool_())
    arrays = [
        array if (array := cells.array) is not None and array.type == field.type else array_of_cells(cells, column)
        for cells, column, field in zip(part.cells, columns, kind if columns else (), strict=True)
    ]
    if not columns:
        arrays = [pa.nulls(part.size, field.type) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def relation_rows(batch: pa.RecordBatch, relation: Relation, own: Numbers) -> Rows:
    """Return rows of a relation by their indices in a batch, with the envelope and the relation's struct column."""
    structs = batch.column(struct_column(relation.number))
    at = _indices(own, batch.num_rows)
    parts = {part: _part_at(each, at) for part, each in zip(parts_of(relation), structs.flatten(), strict=True)}
    return Rows(
        key=parts["k"],
        value=parts["v"],
        old=parts.get("o"),
        old_key=parts.get("ok"),
        extra=parts.get("x"),
        times=Arrow(batch.column("ts"), at),
        headers=Arrow(batch.column("headers"), at),
        origin=None,
        at=at,
    )


def _indices(own: Numbers, size: int) -> Indices:
    if len(own) == size and (np.diff(own) == 1).all():
        return range(size)
    found = chosen(own)
    found.extend(own.tolist())
    return found


def relation_structs(parts: Mapping[str, Part | None], relation: Relation) -> pa.StructArray:
    """Return the struct column of a relation, of its fields; one that is missing is NULL.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its type.
    """
    size = next(part.size for part in parts.values() if part is not None)
    arrays = []
    for name, columns in parts_of(relation).items():
        part = parts.get(name)
        arrays.append(pa.nulls(size, arrow_struct(columns)) if part is None else structs_of(part, columns))
    return pa.StructArray.from_arrays(arrays, names=list(parts_of(relation)))
