"""What operators on keyed rows share that work on whole columns of a page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.keys import EncodedKey
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.operators.aggregates.by_column import Segments
from kestrel_sql.operators.number_columns import Flags, Numbers
from kestrel_sql.operators.operator import KeyBytes, State
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, struct_column
from kestrel_sql.spark.io.columns import rows_at, to_list, values_at
from kestrel_sql.spark.state.column_rows import (
    MANY_ROWS,
    InOrder,
    Made,
    codes_of,
    enveloped,
    order_of,
    positions_of,
    present,
    valid,
)
from kestrel_sql.spark.state.table_versions import KeyedRows, SideRows
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.schema import Column

_ENVELOPE_NAMES = [field.name for field in ENVELOPE_FIELDS if field.name != "log"]


class KeyedColumns(ABC):
    """Runs an operator whose rows have keys over whole columns."""

    def __init__(self, stateful: Stateful, made: pa.Schema) -> None:
        operator: Any = stateful.operator
        self._key_bytes: KeyBytes = operator.key_bytes
        self._inputs = stateful.inputs
        self._output = stateful.output
        self._made = made

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows, and none has a window."""
        return rows.num_rows >= MANY_ROWS and bool(rows.column("ws").null_count == rows.num_rows)

    @abstractmethod
    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""

    def _keyed(self, rows: pa.RecordBatch, usable: Flags) -> KeyedRows:
        arrived = order_of(rows, usable)
        sides = self._sides(rows, arrived)
        keys = self._keys(sides)
        codes = codes_of(keys)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(codes[order]) != 0]))
        segments = Segments(starts, len(order))
        groups = np.empty(len(order), np.int64)
        groups[order] = segments.groups
        firsts = zip(*(to_list(column.take(pa.array(order[starts]))) for column in keys), strict=True)
        names = [self._key_bytes(tuple(key)) if known else None for known, *key in firsts]
        return KeyedRows(InOrder.of(rows, arrived), sides, keys[1:], order, segments, groups, names)

    def _sides(self, rows: pa.RecordBatch, arrived: Numbers) -> list[SideRows]:
        """The rows of each input among those at the indices `arrived`, in this order."""
        relations = rows.column("rel").to_numpy()[arrived]
        sides = []
        for relation in self._inputs:
            at = np.flatnonzero(relations == relation.number)
            structs = values_at(rows.column(struct_column(relation.number)), arrived[at])
            fields = {field.name: child for field, child in zip(structs.type, structs.flatten(), strict=True)}
            sides.append(SideRows(relation, at, fields))
        return sides

    def _keys(self, sides: Sequence[SideRows]) -> list[pa.Array]:
        """Whether each row has a key, and the columns of the keys."""
        at = pa.array(np.argsort(np.concatenate([side.at for side in sides]), kind="stable"))
        columns = zip(*(side.fields["k"].flatten() for side in sides), strict=True)
        known = [pa.array(_known(side.fields["k"])) for side in sides]
        return [pa.concat_arrays(list(parts)).take(at) for parts in (known, *columns)]

    def _usable(self, rows: pa.RecordBatch, relation: Relation) -> Flags:
        """Which rows are of a relation and have a key."""
        structs = rows.column(struct_column(relation.number))
        found = present(structs, "k")
        if len(relation.schema.key) == 1:
            found &= valid(structs.field("k").field(0))
        return found

    def _results(
        self, rows: InOrder, at: Numbers, parts: Mapping[str, pa.StructArray], times: Numbers, task: int
    ) -> Iterator[pa.RecordBatch]:
        """The outputs of the rows at these ascending indices, which may repeat, with the fields `parts`."""
        if len(at):
            kind = self._made.field(struct_column(self._output.number)).type
            structs = pa.StructArray.from_arrays([parts[field.name] for field in kind], fields=list(kind))
            made = Made(self._output.number, structs, times, positions_of(at))
            yield from enveloped(rows_at(rows.given.select(_ENVELOPE_NAMES), rows.order[at]), made, self._made, task)

    def _own_keys(self, keyed: KeyedRows, at: Numbers) -> pa.StructArray:
        """The keys of rows as keys of their outputs."""
        return self._key(keyed.keys, at, ~keyed.known[at])

    def _key(self, columns: Sequence[pa.Array], at: Numbers, missing: Flags) -> pa.StructArray:
        """The keys of results from key columns, by index."""
        kind = self._made.field(struct_column(self._output.number)).type.field("k").type
        taken = pa.array(at)
        return pa.StructArray.from_arrays(
            [column.take(taken) for column in columns], fields=list(kind), mask=pa.array(missing)
        )

    def _value(self, columns: Sequence[pa.Array], field: str = "v", mask: Flags | None = None) -> pa.StructArray:
        """A row of the result from its columns; the columns that are left over are NULL."""
        kind = self._made.field(struct_column(self._output.number)).type.field(field).type
        nulls = [pa.nulls(len(columns[0]), each.type) for each in list(kind)[len(columns) :]]
        return pa.StructArray.from_arrays(
            [*columns, *nulls], fields=list(kind), mask=None if mask is None else pa.array(mask)
        )


def fits(stateful: Stateful, made: pa.Schema) -> bool:
    """Whether keys are compared by value, and the columns of the inputs are those of the result."""
    keys: Any = stateful.operator.key_bytes
    if not (isinstance(keys, EncodedKey) and keys.exact):
        return False
    inputs = stateful.inputs
    own = [types_of(relation.schema.key) for relation in (*inputs, stateful.output)]
    operator: Any = stateful.operator
    sides = inputs[::-1] if getattr(operator, "join_type", None) is JoinType.RIGHT else inputs
    given = [kind for relation in sides for kind in types_of(relation.schema.value)]
    given_all = all(relation.schema.value for relation in inputs)
    result = types_of(stateful.output.schema.value)
    return bool(own[0]) and given_all and own.count(own[0]) == len(own) and result[: len(given)] == given


def types_of(columns: Sequence[Column]) -> list[str]:
    """The types of columns as text."""
    return [str(column.type) for column in columns]


def _known(keys: pa.StructArray) -> Flags:
    """Which keys are not null; a key whose only column is NULL is null."""
    found = valid(keys)
    return found & valid(keys.field(0)) if keys.type.num_fields == 1 else found
