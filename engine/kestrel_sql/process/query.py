"""A query that runs in this process: batches of records in, records and log entries out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from kestrel_sql.dataflow.graph import Graph, Node, Numbered, Source, Stateful
from kestrel_sql.dataflow.log_entries import FATAL, late_entry
from kestrel_sql.dataflow.rows import Made, Ordinal, Output, Row, Rows
from kestrel_sql.formats.serde import describe
from kestrel_sql.operators.late import Late, note_row, take
from kestrel_sql.operators.operator import Key, PacksState, Scope, State
from kestrel_sql.operators.state_codec import bucket_rows, dump_state, load_state
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import LogEntry, Record

FAILED = "failed"
"""The part of a state that says that its operator failed; it gets no more rows."""

Checkpoint = dict[tuple[int, int], bytes]
"""The encoded state of each node and task."""


@dataclass(slots=True)
class ProcessQuery:
    """A query with its state; `tasks` is the number of partitions of the widest topic that it reads."""

    graph: Graph
    tasks: int = 1
    ended: bool = False
    """Whether a record ended the query; it takes no more."""
    _states: dict[tuple[int, int], State] = field(default_factory=dict)
    _fed: int = 0

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it reads."""
        return frozenset(source.topic for source in self.graph.sources)

    def process(self, records: Sequence[Record], output: Output) -> None:
        """Process a batch of records in this order, and add what comes of it to `output`."""
        if self.ended:
            return
        numbered = list(enumerate(records, self._fed))
        self._fed += len(records)
        made = Made()
        self._run(numbered, made)
        self.ended = made.end() is not None
        made.add_to(output)

    def states(self, node: int) -> Iterator[State]:
        """Return the states of an operator, one for each task that has any."""
        return (state for (number, _), state in self._states.items() if number == node)

    def take_over(self, other: ProcessQuery, old: int, new: int, positions: tuple[int | None, ...] | None) -> None:
        """Take the state of an operator of another plan of the query, and give stored rows the columns it lacks."""
        self._fed = other._fed
        for (number, task), state in other._states.items():
            if number == old:
                self._states[new, task] = state
                for key, row in state.get("rows", {}).items() if positions is not None else ():
                    state["rows"][key] = [None if at is None else row[at] for at in positions or ()]

    def checkpoint(self) -> Checkpoint:
        """Encode the state, as it is stored between two batches."""
        return {at: dump_state(state) for at, state in self._states.items()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take a state over."""
        self._states = {at: load_state(blob) for at, blob in checkpoint.items()}

    def _run(self, records: Numbered, made: Made) -> None:
        results: list[Rows] = []
        for number, node in enumerate(self.graph.nodes):
            match node:
                case Source(topic, read):
                    results.append(read(made, [each for each in records if each[1].topic == topic]))
                case Node(sources, apply):
                    results.append(apply(made, *(results[at] for at in sources)))
                case Stateful():
                    inputs = [results[flow.node] for flow in node.inputs]
                    results.append(self._stateful(number, node, inputs, made) if any(inputs) else [])

    def _stateful(self, number: int, node: Stateful, inputs: Sequence[Rows], made: Made) -> Rows:
        """Pass rows through an operator, in the order of their ordinals."""
        given = list(chain.from_iterable(self._sided(node, side, rows) for side, rows in enumerate(inputs)))
        given.sort(key=_ordinal)
        found: Rows = []
        touched: dict[int, State] = {}
        for row in given:
            state = touched.get(row.task)
            if state is None:
                state = touched[row.task] = self._states.setdefault((number, row.task), {})
            if FAILED not in state:
                found += self._processed(node, row, state, made)
        for state in touched.values():
            late = take(state)
            if late is not None:
                made.entries.append(_late(node, late))
            if isinstance(node.operator, PacksState):
                node.operator.pack(state)
            if node.operator.scope is not Scope.TASK:
                bucket_rows(state)
        return found

    @staticmethod
    def _processed(node: Stateful, row: Row, state: State, made: Made) -> Rows:
        try:
            outputs = [*node.operator.process(row, state)]
        except Exception as error:  # noqa: BLE001 - any error of an aggregate fails this query and no other
            state[FAILED] = True
            message = f"Exception caught in process. {describe(error)}"
            made.log(row, FATAL, node.logger, message, (describe(error),), None)
            return []
        note_row(state, lambda: row)
        return [
            Row(
                0,
                each.key,
                each.value,
                each.timestamp,
                each.old,
                None,
                each.window,
                ordinal=(*row.ordinal, position),
                cause=row.cause,
                headers=row.headers,
                task=row.task,
            )
            for position, each in enumerate(outputs)
        ]

    def _sided(self, node: Stateful, side: int, rows: Rows) -> Iterator[Row]:
        """The rows of an input as the operator takes them: with its side, its task, and NULL for a key of a NULL."""
        flow, operator = node.inputs[side], node.operator
        single = len(flow.schema.key) == 1
        for row in rows:
            key, old_key = (_null_or(row.key), _null_or(row.old_key)) if single else (row.key, row.old_key)
            if operator.scope is Scope.QUERY:
                task = 0
            else:
                task = row.task % self.tasks
                if flow.rekeyed and self.tasks > 1:
                    task, old = self._task(node, key, task), self._task(node, old_key, task)
                    if key is None and old_key is not None:
                        task = old
                    elif old_key is not None and old != task:
                        # A change that moves a row of a table to a group of another task becomes two.
                        yield replace(
                            row, side=side, key=None, value=None, old_key=old_key, task=old, ordinal=(*row.ordinal, 0)
                        )
                        yield replace(
                            row, side=side, key=key, old=None, old_key=None, task=task, ordinal=(*row.ordinal, 1)
                        )
                        continue
            if side == row.side and task == row.task and key is row.key and old_key is row.old_key:
                yield row
            else:
                yield replace(row, side=side, key=key, old_key=old_key, task=task)

    def _task(self, node: Stateful, key: Key | None, default: int) -> int:
        if key is None or key[0] is None:
            return default
        return partition_of(node.operator.key_bytes(key), self.tasks)


def _null_or(key: Key | None) -> Key | None:
    return None if key is None or key[0] is None else key


def _ordinal(row: Row) -> Ordinal:
    return row.ordinal


def _late(node: Stateful, late: Late) -> tuple[Ordinal, LogEntry]:
    entry, row = late_entry(node.logger, late), late.row
    return row.ordinal, LogEntry(
        kind=entry["kind"],
        logger=entry["logger"],
        message=entry["message"],
        topic=row.cause.topic,
        partition=row.cause.partition,
        offset=row.cause.offset,
        record=entry["record"],
    )
