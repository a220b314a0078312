"""Runs the rows of a page through the operators of a level: Arrow in, Arrow out, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.log_entries import FATAL, failed, late_entry
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.formats.serde import describe
from kestrel_sql.operators.late_rows import Late, note_row, take
from kestrel_sql.operators.operator import Output, PacksState, Row, Scope
from kestrel_sql.operators.state_codec import bucket_rows
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, LOG, LOG_ONLY, struct_column
from kestrel_sql.spark.io.columns import Rows, to_list, to_ordinals, to_rows
from kestrel_sql.spark.state.column_operators import column_operators
from kestrel_sql.spark.state.column_rows import MAX_OUTPUTS, MIN_ROWS, can_run, output_structs
from kestrel_sql.spark.state.level import Level


@dataclass(frozen=True, slots=True)
class _Input:
    """A relation that a level reads, its operator, and the side of the operator that it feeds.

    0 for left, 1 for right.
    """

    stateful: Stateful
    side: int
    facts: Relation


@dataclass(slots=True)
class _Made:
    """Outputs that are not written yet; `causes` are the indices of the rows that they come from."""

    relations: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    ordinals: list[list[int]] = field(default_factory=list)
    outputs: list[Output | None] = field(default_factory=list)
    entries: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, relation: int, cause: int, ordinal: list[int], outputs: Sequence[Output]) -> None:
        """Add the outputs of one row; their ordinals are that of the row with a position appended."""
        for position, output in enumerate(outputs):
            self.relations.append(relation)
            self.causes.append(cause)
            self.ordinals.append([*ordinal, position])
            self.outputs.append(output)

    def copy(self, other: _Made, at: int) -> None:
        """Add the output at an index of `other`."""
        if at in other.entries:
            self.entries[len(self.causes)] = other.entries[at]
        self.relations.append(other.relations[at])
        self.causes.append(other.causes[at])
        self.ordinals.append(other.ordinals[at])
        self.outputs.append(other.outputs[at])

    def fail(self, cause: int, ordinal: list[int], entry: dict[str, Any]) -> None:
        """Add a row that only carries a log entry."""
        self.entries[len(self.causes)] = entry
        self.relations.append(LOG_ONLY)
        self.causes.append(cause)
        self.ordinals.append(ordinal)
        self.outputs.append(None)


class PageRunner:
    """Runs the operators of a level over the rows of a page."""

    def __init__(self, level: Level) -> None:
        """Prepare for any number of pages."""
        self._schema = level.made()
        self._operators = level.operators
        self._by_column = column_operators(level.operators, self._schema)
        self._inputs = {
            each.number: _Input(stateful, side, each)
            for stateful in level.operators
            for side, each in enumerate(stateful.inputs)
        }

    def run(self, rows: pa.RecordBatch, task: int, state: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Process the rows of a micro-batch in the order of their ordinals.

        Args:
            rows: the rows, with the schema `Level.read`.
            task: their task.
            state: the state of each operator, by the number of its output relation; updated.

        Returns:
            The outputs, with the schema `Level.made`.
        """
        rest = rows
        for stateful in self._operators if self._by_column and can_run(rows) else ():
            runner = self._by_column.get(stateful.output.number)
            own = np.isin(rest.column("rel").to_numpy(), [each.number for each in stateful.inputs])
            if runner is None or np.count_nonzero(own) < MIN_ROWS:
                continue
            given = rest if own.all() else rest.filter(pa.array(own))
            if runner.accepts(given):
                _, kept = self._owner(stateful.inputs[0].number, state)
                if "failed" not in kept:
                    yield from runner.run(given, task, kept)
                rest = rest.slice(rest.num_rows) if own.all() else rest.filter(pa.array(~own))
        if rest.num_rows:
            yield from self._one_by_one(rest, task, state)
        for stateful in self._operators:
            own = state.get(str(stateful.output.number), {})
            late = take(own)
            if late is not None:
                yield self._told(stateful, late, task, state)
            if isinstance(stateful.operator, PacksState):
                stateful.operator.pack(own)
            if stateful.operator.scope is not Scope.TASK:
                # Operators over time keep rows in an order, and need them all.
                bucket_rows(own)

    def _one_by_one(self, rows: pa.RecordBatch, task: int, state: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        relations = rows.column("rel").to_numpy()
        ordinals = to_ordinals(rows.column("ordinal"))
        given = self._given(rows, relations)
        numbers = relations.tolist()
        owners = {relation: self._owner(relation, state) for relation in set(numbers)}
        made = _Made()
        for at in sorted(range(len(ordinals)), key=ordinals.__getitem__):
            stateful, own = owners[numbers[at]]
            if "failed" in own:
                continue
            ordinal = ordinals[at]
            try:
                outputs = [*stateful.operator.process(given[at], own)]
            except Exception as error:  # noqa: BLE001 - any error of an aggregate fails this query and no other
                own["failed"] = True
                made.fail(at, ordinal, _entry(stateful, error))
                continue
            note_row(own, rows.slice, at, 1)
            if outputs:
                made.add(stateful.output.number, at, ordinal, outputs)
                if len(made.causes) >= MAX_OUTPUTS:
                    yield self._batch(made, rows, task, state)
                    made = _Made()
        if made.causes:
            yield self._batch(made, rows, task, state)

    def _told(self, stateful: Stateful, late: Late, task: int, state: dict[str, Any]) -> pa.RecordBatch:
        """A row that tells of those that came too late, in the place of the first."""
        made = _Made()
        made.fail(0, to_ordinals(late.row.column("ordinal"))[0], late_entry(stateful.logger, late))
        return self._batch(made, late.row, task, state)

    def _owner(self, relation: int, state: dict[str, Any]) -> tuple[Stateful, dict[str, Any]]:
        """The operator that reads a relation, with its state."""
        stateful = self._inputs[relation].stateful
        return stateful, state.setdefault(str(stateful.output.number), {})

    def _given(self, rows: pa.RecordBatch, relations: npt.NDArray[np.int32]) -> list[Row]:
        """Each row in the form that its operator reads."""
        times = rows.column("ts").to_pylist() if rows.column("ts").null_count else rows.column("ts").to_numpy().tolist()
        windows = _windows(rows)
        found: list[Any] = [None] * rows.num_rows
        for relation in np.unique(relations).tolist():
            given = self._inputs[relation]
            own = np.flatnonzero(relations == relation)
            structs = rows.column(struct_column(relation))
            if len(own) < rows.num_rows:
                structs = structs.take(pa.array(own))
            columns = _columns(structs, given.facts)
            side = given.side
            for at, (key, value, old, old_key, extra) in zip(own.tolist(), columns, strict=True):
                found[at] = Row(side, key, value, times[at], old, old_key, windows[at] if windows else None, extra)
        return found

    def _batch(self, made: _Made, rows: pa.RecordBatch, task: int, state: dict[str, Any]) -> pa.RecordBatch:
        structs = {}
        for stateful in self._operators:
            try:
                structs[stateful.output.number] = self._structs(made, stateful.output)
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                state[str(stateful.output.number)]["failed"] = True
                return self._batch(self._stopped(made, stateful), rows, task, state)
        return self._with_envelope(made, structs, rows, task)

    def _stopped(self, made: _Made, stateful: Stateful) -> _Made:
        """The outputs, without those of an operator from the first one on whose values do not fit its columns."""
        left, stopped = _Made(), False
        for at, (relation, cause, ordinal, output) in enumerate(
            zip(made.relations, made.causes, made.ordinals, made.outputs, strict=True)
        ):
            if output is None or relation != stateful.output.number:
                left.copy(made, at)
            elif not stopped:
                try:
                    output_structs([output], stateful.output, self._schema)
                    left.copy(made, at)
                except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                    left.fail(cause, ordinal[:-1], _entry(stateful, error))
                    stopped = True
        return left

    def _with_envelope(
        self, made: _Made, structs: Mapping[int, pa.Array], rows: pa.RecordBatch, task: int
    ) -> pa.RecordBatch:
        causes = pa.array(made.causes, pa.int64())
        size = len(made.causes)
        windows = [output and output.window for output in made.outputs]
        times = rows.column("ts").take(causes).to_pylist() if made.entries else []
        columns: dict[str, pa.Array] = {
            "rel": pa.array(made.relations, pa.int32()),
            "ordinal": pa.array(made.ordinals, pa.list_(pa.int64())),
            "ts": pa.array(
                [times[at] if output is None else output.timestamp for at, output in enumerate(made.outputs)],
                pa.int64(),
            ),
            "ws": pa.array([window and window[0] for window in windows], pa.int64()),
            "we": pa.array([window and window[1] for window in windows], pa.int64()),
            "task": pa.array(np.full(size, task), pa.int32()),
            "log": self._logs(made.entries, size),
        }
        for envelope in ENVELOPE_FIELDS:
            if envelope.name not in columns:
                columns[envelope.name] = rows.column(envelope.name).take(causes)
        columns |= {struct_column(relation): array for relation, array in structs.items()}
        return pa.RecordBatch.from_arrays([columns[f.name] for f in self._schema], schema=self._schema)

    @staticmethod
    def _logs(entries: Mapping[int, dict[str, Any]], size: int) -> pa.Array:
        if entries:
            return pa.array([[entries[at]] if at in entries else [] for at in range(size)], LOG)
        return pa.ListArray.from_arrays(pa.array(np.zeros(size + 1, np.int32)), pa.array([], LOG.value_type))

    def _structs(self, made: _Made, facts: Relation) -> pa.Array:
        """The struct column of a relation, NULL in the rows of other relations."""
        kind = self._schema.field(struct_column(facts.number)).type
        own = [
            output
            for relation, output in zip(made.relations, made.outputs, strict=True)
            if relation == facts.number and output
        ]
        if not own:
            return pa.nulls(len(made.relations), kind)
        structs = output_structs(own, facts, self._schema)
        if len(own) == len(made.relations):
            return structs
        where = np.array(made.relations) == facts.number
        return structs.take(pa.array(np.cumsum(where) - 1, mask=~where))


def _entry(stateful: Stateful, error: Exception) -> dict[str, Any]:
    return failed(FATAL, stateful.logger, f"Exception caught in process. {describe(error)}", error)


def _columns(structs: pa.StructArray, facts: Relation) -> Iterator[tuple[Any, ...]]:
    """Key, value, previous value, previous key and extra columns of each row.

    None for those that the relation does not have.
    """
    fields = {f.name: child for f, child in zip(structs.type, structs.flatten(), strict=True)}
    single = len(facts.schema.key) == 1
    nothing: Sequence[None] = [None] * len(structs)
    return zip(
        _keys(fields["k"], single) if "k" in fields else nothing,
        to_rows(fields["v"]),
        to_rows(fields["o"]) if "o" in fields else nothing,
        _keys(fields["ok"], single) if "ok" in fields else nothing,
        [None if row is None or None in row else row for row in to_rows(fields["x"])] if "x" in fields else nothing,
        strict=True,
    )


def _keys(array: pa.StructArray, single: bool) -> Rows:
    """The keys; a key whose only column is NULL is None."""
    keys = to_rows(array)
    if single and array.field(0).null_count:
        return [None if key is None or key[0] is None else key for key in keys]
    return keys


def _windows(rows: pa.RecordBatch) -> list[tuple[int, int] | None] | None:
    """The window of each row; None if no row has one."""
    starts, ends = rows.column("ws"), rows.column("we")
    if starts.null_count == rows.num_rows:
        return None
    return [None if start is None else (start, end) for start, end in zip(to_list(starts), to_list(ends), strict=True)]
