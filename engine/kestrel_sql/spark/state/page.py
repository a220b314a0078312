"""Runs the rows of a page through the operators of a level: Arrow in, Arrow out, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.arrow.columns import to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.log_entries import FATAL, failed, late_entry
from kestrel_sql.dataflow.operator_rows import OperatorRows, failure, finish
from kestrel_sql.formats.serde import describe
from kestrel_sql.operators.aggregates.group_rows import new_group
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate
from kestrel_sql.operators.group_columns import GroupColumns
from kestrel_sql.operators.operator import Results, State, Window
from kestrel_sql.operators.state_codec import BUCKETED_FROM
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, LOG, LOG_ONLY
from kestrel_sql.spark.io.cells import relation_rows, relation_structs
from kestrel_sql.spark.io.columns import ordinal_order, rows_at
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.made_rows import Made, enveloped, positions_of
from kestrel_sql.types.sql_types import Primitive

_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)
"""What Arrow raises for a value that does not fit its column."""

Numbers = npt.NDArray[np.int64]


class _Page(msgspec.Struct, frozen=True):
    """The rows of an operator in a page, as Arrow has them and as the operator takes them, in the order of `order`."""

    batch: pa.RecordBatch
    order: Numbers
    rows: OperatorRows

    def row(self, at: int) -> pa.RecordBatch:
        """Return a row by its index among those of the operator."""
        return self.batch.slice(int(self.order[at]), 1)


class PageRunner:
    """Runs the operators of a level over the rows of a page."""

    def __init__(self, level: Level) -> None:
        """Prepare for any number of pages."""
        self._schema = level.made()
        self._operators = level.operators

    def run(self, rows: pa.RecordBatch, task: int, state: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Process the rows of a micro-batch in the order of their ordinals.

        Args:
            rows: the rows, with the schema `Level.read`.
            task: their task.
            state: the state of each operator, by the number of its output relation; updated.

        Returns:
            The outputs, with the schema `Level.made`.
        """
        relations = rows.column("rel").to_numpy()
        for stateful in self._operators:
            mine = np.logical_or.reduce([relations == each.number for each in stateful.inputs])
            if not mine.any():
                continue
            own = state.setdefault(str(stateful.output.number), {})
            if "failed" not in own:
                given = rows if mine.all() else rows.filter(pa.array(mine))
                yield from self._processed(stateful, given, task, own)

    def _processed(
        self, stateful: Stateful, given: pa.RecordBatch, task: int, state: State
    ) -> Iterator[pa.RecordBatch]:
        page = _page(stateful, given)
        try:
            for results in stateful.operator.process(page.rows, state):
                if results.causes and "failed" not in state:
                    yield from self._written(page, results, task, state)
        except Exception as error:  # noqa: BLE001 - any error of an aggregate fails this query and no other
            state["failed"] = True
            at, cause = failure(error)
            yield self._failed(page, at, cause, task)
        self._keep_columns(stateful, state)
        late = finish(stateful, state)
        if late is not None:
            yield self._logged(page.row(late.row), late_entry(stateful.logger, late), task)

    def _keep_columns(self, stateful: Stateful, state: State) -> None:
        """Put many groups that hold only numbers into columns."""
        operator, groups = stateful.operator, state.get("groups", {})
        if not isinstance(operator, StreamAggregate) or isinstance(groups, GroupColumns) or len(groups) < BUCKETED_FROM:
            return
        copied = stateful.output.schema.value[: len(operator.columns)]
        if all(call.fold for call, _ in operator.calls) and all(isinstance(each.type, Primitive) for each in copied):
            fresh = new_group(operator.columns, operator.calls, None)
            state["groups"] = GroupColumns.of(groups, fresh, [to_arrow(each.type) for each in copied])

    def _written(self, page: _Page, results: Results, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Return outputs, up to the first one whose values do not fit their columns, which is logged."""
        flaw = None
        try:
            structs = self._structs(page, results)
        except _UNFIT:
            state["failed"] = True
            at, error = self._unfit(page, results)
            flaw = self._failed(page, results.causes[at], error, task)
            results = results.first(at)
            structs = self._structs(page, results)
        whole = isinstance(results.causes, range)
        causes = np.arange(len(results.causes)) if whole else np.array(results.causes, np.int64)
        made = Made(
            page.rows.stateful.output.number,
            structs,
            np.array(results.times, np.int64),
            positions_of(causes),
            _bounds(results),
        )
        yield from enveloped(rows_at(page.batch, page.order[causes]), made, self._schema, task)
        if flaw is not None:
            yield flaw

    def _structs(self, page: _Page, results: Results) -> pa.StructArray:
        key, value, old = page.rows.outputs(results)
        return relation_structs({"k": key, "v": value, "o": old}, page.rows.stateful.output)

    def _unfit(self, page: _Page, results: Results) -> tuple[int, Exception]:
        """The first output whose values do not fit their columns, and why."""
        for at in range(len(results.causes)):
            try:
                self._structs(page, results.first(at + 1))
            except _UNFIT as error:
                return at, error
        raise AssertionError

    def _failed(self, page: _Page, at: int, error: Exception, task: int) -> pa.RecordBatch:
        message = f"Exception caught in process. {describe(error)}"
        return self._logged(page.row(at), failed(FATAL, page.rows.stateful.logger, message, error), task)

    def _logged(self, row: pa.RecordBatch, entry: Mapping[str, object], task: int) -> pa.RecordBatch:
        """A row that only carries a log entry, in the place of another."""
        made = {
            "rel": pa.array([LOG_ONLY], pa.int32()),
            "ws": pa.nulls(1, pa.int64()),
            "we": pa.nulls(1, pa.int64()),
            "task": pa.array([task], pa.int32()),
            "log": pa.array([[entry]], LOG),
        }
        known = {field.name for field in ENVELOPE_FIELDS}
        arrays = [
            made[field.name]
            if field.name in made
            else row.column(field.name)
            if field.name in known
            else pa.nulls(1, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _page(stateful: Stateful, batch: pa.RecordBatch) -> _Page:
    """The rows of an operator in the order in which it takes them."""
    order = ordinal_order(batch.column("ordinal"))
    relations = batch.column("rel").to_numpy()[order]
    sides, at = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    inputs = []
    for side, relation in enumerate(stateful.inputs):
        own = np.flatnonzero(relations == relation.number)
        sides[own], at[own] = side, np.arange(len(own))
        inputs.append(relation_rows(batch, relation, order[own]) if len(own) else None)
    rows = OperatorRows(
        stateful=stateful,
        inputs=inputs,
        sides=sides.tolist(),
        at=range(len(order)) if len(inputs) == 1 else at.tolist(),
        windows=_windows(batch, order),
    )
    return _Page(batch, order, rows)


def _windows(batch: pa.RecordBatch, order: Numbers) -> list[Window | None] | None:
    """The window of each row; None if no row has one."""
    if batch.column("ws").null_count == batch.num_rows:
        return None
    starts, ends = (to_list(batch.column(name).take(pa.array(order))) for name in ("ws", "we"))
    return [None if start is None else (start, end) for start, end in zip(starts, ends, strict=True)]


def _bounds(results: Results) -> tuple[pa.Array, pa.Array] | None:
    if results.windows is None:
        return None
    nothing = (None, None)
    given = results.windows if None not in results.windows else [window or nothing for window in results.windows]
    start, end = (pa.array(bounds, pa.int64()) for bounds in (zip(*given, strict=True) if given else ((), ())))
    return start, end
