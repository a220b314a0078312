"""Chooses what runs the operators of a level over whole columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.operators.operator import State
from kestrel_sql.spark.state.table_aggregate_by_column import column_table_aggregate


class ColumnOperator(Protocol):
    """Runs a stateful operator over whole columns; the operator, which works row by row, says what is right."""

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether rows that `can_run` accepts may go by column."""
        ...

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows of the operator's inputs, update its `state`, and return its outputs by ordinal."""
        ...


def column_operators(operators: Sequence[Stateful], made: pa.Schema) -> Mapping[int, ColumnOperator]:
    """Return what runs operators of a level over columns, by their output relations; other operators have nothing."""
    found = ((stateful.output.number, _column_operator(stateful, made)) for stateful in operators)
    return {relation: runner for relation, runner in found if runner is not None}


def _column_operator(stateful: Stateful, made: pa.Schema) -> ColumnOperator | None:
    return column_table_aggregate(stateful, made)
