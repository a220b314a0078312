"""Projections that run on Arrow: their rows need not go to Spark's JVM and back (ADR 24).

Such a projection takes fields of structs, makes structs, drops rows and logs faults, and computes no more than
`kestrel_sql.spark.pipeline.arrow_expressions` does as Spark. All other projections run as Spark SQL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.pipeline.arrow_expressions import NotOnArrowError, Value, as_array, computed
from kestrel_sql.spark.stages.stage import LOG_ONLY, Operation, Stage, entry, struct_column


def arrow_relations(stage: Stage, columns: pa.Schema) -> frozenset[int]:
    """The relations of a stage that have operations, all of which can run on Arrow; `columns` are those of its rows."""
    nothing = pa.RecordBatch.from_pylist([], schema=columns)
    return frozenset(
        relation for relation, operations in stage.operations.items() if _runs_on_arrow(relation, operations, nothing)
    )


def project_batches(stage: Stage, relations: Collection[int]) -> Pass:
    """Return the function for `mapInArrow` that runs projections of a stage on Arrow instead of its SQL."""
    given = {relation: stage.operations[relation] for relation in relations}

    def project(batches: Batches) -> Batches:
        # Each worker translates the trees itself: trees can be pickled, the functions made of them cannot.
        projections = {relation: [*map(_projection, operations)] for relation, operations in given.items()}
        for batch in batches:
            for relation, each in projections.items():
                for projection in each:
                    batch = projection.apply(batch, relation)
            yield alive(batch)

    return project


@dataclass(frozen=True, slots=True)
class _Projection:
    """A projection on Arrow.

    The struct that it makes, the rows that it keeps, and the log entries of rows with a fault.
    """

    struct: Value
    keep: Value | None
    faults: Sequence[tuple[Value, Mapping[str, Any]]]

    def apply(self, batch: pa.RecordBatch, relation: int) -> pa.RecordBatch:
        """Return the batch with the rows of a relation projected."""
        relations = batch.column("rel")
        own = pc.equal(relations, relation)
        structs = self.struct(batch)
        if own.true_count < len(own):
            structs = pa.StructArray.from_arrays(structs.flatten(), fields=list(structs.type), mask=pc.invert(own))
        changed = {struct_column(relation): structs}
        if self.keep is not None:
            dropped = pc.and_(own, pc.invert(self.keep(batch)))
            changed["rel"] = pc.if_else(dropped, pa.scalar(LOG_ONLY, pa.int32()), relations)
        found = [(pc.and_(own, condition(batch)), entry) for condition, entry in self.faults]
        if any(failed.true_count for failed, _ in found):
            changed["log"] = _logged(batch.column("log"), found)
        for name, column in changed.items():
            batch = batch.set_column(batch.schema.get_field_index(name), name, column)
        return batch


def _logged(log: pa.ListArray, found: Sequence[tuple[pa.BooleanArray, Mapping[str, Any]]]) -> pa.ListArray:
    """Append the entries of the faults found to the log of their rows."""
    entries = log.to_pylist()
    for failed, further in found:
        for at in pc.indices_nonzero(failed).to_pylist():
            entries[at] = [*entries[at], further]
    return pa.array(entries, log.type)


def _runs_on_arrow(relation: int, operations: Sequence[Operation], nothing: pa.RecordBatch) -> bool:
    """Whether there are operations that Arrow computes as Spark does; types tell only when they run, over no rows."""
    try:
        for operation in operations:
            nothing = _projection(operation).apply(nothing, relation)
    except (NotOnArrowError, pa.ArrowException):
        return False
    return bool(operations)


def _projection(operation: Operation) -> _Projection:
    computed = (operation.rows, operation.timestamp, operation.headers)
    if any(each is not None for each in computed) or (
        operation.faults
        and not all(
            isinstance(tree, exp.Null) for tree in (operation.record, *(fault.cause for fault in operation.faults))
        )
    ):
        raise NotOnArrowError
    faults = [(condition_of(fault.condition), entry(operation, fault)) for fault in operation.faults]
    return _Projection(
        _struct(operation.fields, None), None if operation.keep is None else condition_of(operation.keep), faults
    )


def alive(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the rows that belong to no relation and have no log entries."""
    relations = batch.column("rel")
    if not len(relations) or pc.min(relations).as_py() >= 0:
        return batch
    return batch.filter(
        pc.or_(pc.greater_equal(relations, 0), pc.greater(pc.list_value_length(batch.column("log")), 0))
    )


def value_of(tree: exp.Expr) -> Value:
    """Return what computes a tree on Arrow.

    Raises:
        NotOnArrowError: only Spark computes it. For types that only Spark computes, running it raises this error.
    """
    match tree:
        case exp.Column() | exp.Dot():
            return _at(_path(tree))
        case exp.Anonymous(this="named_struct"):
            return _struct(_pairs(tree), None)
        case exp.Anonymous(this="if", expressions=[condition, exp.Null(), then]):
            return _unless(condition_of(condition), then)
        case exp.Anonymous(this="if", expressions=[condition, then, exp.Null()]):
            return _unless(_not(condition_of(condition)), then)
        case _:
            return computed(tree, value_of)


def _at(path: Sequence[str]) -> Value:
    def take(batch: pa.RecordBatch) -> pa.Array:
        array = batch.column(path[0])
        for name in path[1:]:
            array = pc.struct_field(array, name)
        return array

    return take


def _unless(absent: Value, tree: Tree) -> Value:
    """A value, NULL where `absent` is true."""
    if isinstance(tree, exp.Anonymous) and tree.this == "named_struct":
        return _struct(_pairs(tree), absent)
    value = value_of(tree)

    def choose(batch: pa.RecordBatch) -> pa.Array:
        array = as_array(value(batch), batch.num_rows)
        return pc.if_else(absent(batch), pa.scalar(None, array.type), array)

    return choose


def _struct(fields: Sequence[tuple[str, Tree]], absent: Value | None) -> Value:
    if not fields:
        # Arrow cannot make structs without fields: it takes the number of rows from the fields.
        raise NotOnArrowError
    names, values = [name for name, _ in fields], [value_of(tree) for _, tree in fields]

    def make(batch: pa.RecordBatch) -> pa.Array:
        return pa.StructArray.from_arrays(
            [as_array(value(batch), batch.num_rows) for value in values],
            names,
            mask=None if absent is None else absent(batch),
        )

    return make


def _pairs(struct: exp.Anonymous) -> list[tuple[str, Tree]]:
    parts = struct.expressions
    return [(name.this, tree) for name, tree in zip(parts[::2], parts[1::2], strict=True)]


def condition_of(tree: exp.Expr) -> Value:
    """A condition; NULL counts as false."""
    value = value_of(tree)

    def test(batch: pa.RecordBatch) -> pa.Array:
        found = value(batch)
        if not pa.types.is_boolean(found.type):
            raise NotOnArrowError
        return pc.fill_null(as_array(found, batch.num_rows), fill_value=False)

    return test


def _not(condition: Value) -> Value:
    return lambda batch: pc.invert(condition(batch))


def _path(tree: exp.Expr) -> tuple[str, ...]:
    match tree:
        case exp.Column(this=exp.Identifier(this=name)):
            return (name,)
        case exp.Dot(this=inner, expression=exp.Identifier(this=name)):
            return (*_path(inner), name)
        case _:
            raise NotOnArrowError
