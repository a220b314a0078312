"""A query that runs in this process: batches of records in, records and log entries out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from kestrel_sql.dataflow.graph import Chain, Graph, Stateful
from kestrel_sql.dataflow.log_entries import FATAL, late_entry
from kestrel_sql.dataflow.operator_rows import OperatorRows, failure, finish, positions_of
from kestrel_sql.dataflow.rows import Cells, Entry, Listed, Ordinal, Output, Part, Rows
from kestrel_sql.formats.serde import describe
from kestrel_sql.operators.late_rows import Late
from kestrel_sql.operators.operator import Key, Results, Scope, State, Window
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.process.batches import Made, Origin, ordinals_of
from kestrel_sql.process.reading import Reader
from kestrel_sql.process.writing import Writer
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import LogEntry, Record

FAILED = "failed"
"""The part of a state that says that its operator failed; it gets no more rows."""

Checkpoint = dict[tuple[int, int], bytes]
"""The encoded state of each operator, by the number of its output, and task."""


class _Given(NamedTuple):
    """A row for an operator: its input, its index there, ordinal and task, and what it changes of a group."""

    side: int
    at: int
    ordinal: Ordinal
    task: int
    enters: bool = True
    leaves: bool = True


@dataclass(slots=True)
class ProcessQuery:
    """A query with its state; `tasks` is the number of partitions of the widest topic that it reads."""

    graph: Graph
    tasks: int = 1
    ended: bool = False
    """Whether a record ended the query; it takes no more."""
    _states: dict[tuple[int, int], State] = field(default_factory=dict)
    _fed: int = 0
    _readers: list[tuple[int, Reader]] = field(init=False)
    _writers: list[tuple[int, Writer]] = field(init=False)

    def __post_init__(self) -> None:
        self._readers = [(source.relation.number, Reader(source)) for source in self.graph.sources]
        self._writers = [(sink.relation.number, Writer(sink)) for sink in self.graph.sinks]

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
        flowing: dict[int, Rows] = {}
        for relation, reader in self._readers:
            own = [each for each in numbered if each[1].topic == reader.topic]
            if own:
                flowing[relation] = reader.rows(made, own)
        for stage, level in zip(self.graph.stages, [[], *self.graph.levels], strict=True):
            for stateful in level:
                inputs = [flowing.pop(each.number, None) for each in stateful.inputs]
                rows = self._stateful(stateful, inputs, made)
                if rows is not None:
                    flowing[stateful.output.number] = rows
            flowing = _after(stage, flowing, made)
        for relation, writer in self._writers:
            if relation in flowing:
                writer.write(made, flowing[relation])
        self.ended = made.end() is not None
        made.add_to(output)

    def states(self, operator: int) -> Iterator[State]:
        """Return the states of an operator, by the number of its output, one for each task that has any."""
        return (state for (number, _), state in self._states.items() if number == operator)

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

    def _stateful(self, stateful: Stateful, inputs: Sequence[Rows | None], made: Made) -> Rows | None:
        """Pass rows through an operator, in the order of their ordinals."""
        given = [each for side, rows in enumerate(inputs) if rows for each in self._sided(stateful, side, rows)]
        given.sort(key=_ordinal)
        results: list[Rows] = []
        for task in dict.fromkeys(each.task for each in given):
            state = self._states.setdefault((stateful.output.number, task), {})
            if FAILED not in state:
                own = [each for each in given if each.task == task]
                results += _processed(stateful, inputs, own, state, made)
        return _joined(results)

    def _sided(self, stateful: Stateful, side: int, rows: Rows) -> Iterator[_Given]:
        """The rows of an input with their tasks."""
        relation, operator, tasks = stateful.inputs[side], stateful.operator, rows.origin.tasks
        ordinals = ordinals_of(rows)
        if operator.scope is Scope.QUERY or not (relation.rekeyed and self.tasks > 1):
            for at, (place, ordinal) in enumerate(zip(rows.at, ordinals, strict=True)):
                yield _Given(side, at, ordinal, 0 if operator.scope is Scope.QUERY else tasks[place] % self.tasks)
            return
        keys = rows.key.rows()
        old_keys = [None] * rows.size if rows.old_key is None else rows.old_key.rows()
        for at, (place, ordinal, key, old_key) in enumerate(zip(rows.at, ordinals, keys, old_keys, strict=True)):
            default = tasks[place] % self.tasks
            task, old = self._task(stateful, key, default), self._task(stateful, old_key, default)
            if old_key is None:
                yield _Given(side, at, ordinal, task)
            elif key is None:
                yield _Given(side, at, ordinal, old)
            elif old == task:
                yield _Given(side, at, ordinal, task)
            else:
                # A change that moves a row of a table to a group of another task becomes two.
                yield _Given(side, at, (*ordinal, 0), old, enters=False)
                yield _Given(side, at, (*ordinal, 1), task, leaves=False)

    def _task(self, stateful: Stateful, key: Key | None, default: int) -> int:
        if key is None:
            return default
        return partition_of(stateful.operator.key_bytes(key), self.tasks)


def _after(stage: Mapping[int, Chain], flowing: Mapping[int, Rows], made: Made) -> dict[int, Rows]:
    """The rows of relations after the steps of a stage; relations without rows are left out."""
    found = {}
    for number, rows in flowing.items():
        for apply in stage[number].steps:
            if rows.size:
                rows = apply(made, rows)
        if rows.size:
            found[number] = rows
    return found


def _processed(
    stateful: Stateful, inputs: Sequence[Rows | None], own: Sequence[_Given], state: State, made: Made
) -> Iterator[Rows]:
    """Pass the rows of a task through an operator."""
    at = [each.at for each in own]
    rows = inputs[0]
    # Columns of all rows in order need no indices.
    whole = len(inputs) == 1 and rows is not None and at == [*range(rows.size)]
    given = OperatorRows(
        stateful=stateful,
        inputs=inputs,
        sides=[each.side for each in own],
        at=range(len(at)) if whole else at,
        enters=None if all(each.enters for each in own) else [each.enters for each in own],
        leaves=None if all(each.leaves for each in own) else [each.leaves for each in own],
        windows=_windows(stateful, inputs, own),
    )
    try:
        for results in stateful.operator.process(given, state):
            if results.causes:
                yield _rows_of(given, own, results)
    except Exception as error:  # noqa: BLE001 - any error of an aggregate fails this query and no other
        state[FAILED] = True
        row, cause = failure(error)
        message = f"Exception caught in process. {describe(cause)}"
        entry = Entry(kind=FATAL, logger=stateful.logger, message=message, cause=(describe(cause),))
        made.log(own[row].ordinal, _origin(inputs, own[row])[0], entry)
    late = finish(stateful, state)
    if late is not None:
        row = late.row
        made.entries.append(_late(stateful, late, own[row].ordinal, _origin(inputs, own[row])[0]))


def _origin(inputs: Sequence[Rows | None], row: _Given) -> tuple[Record, Window | None]:
    """The source record of a row, and the window of its key."""
    rows = inputs[row.side]
    assert rows is not None  # noqa: S101 - the row is one of them
    return rows.origin.causes[rows.at[row.at]], rows.origin.windows[rows.at[row.at]]


def _windows(
    stateful: Stateful, inputs: Sequence[Rows | None], own: Sequence[_Given]
) -> Sequence[Window | None] | None:
    windowed = [relation.window is not None for relation in stateful.inputs]
    if not any(windowed):
        return None
    return [_origin(inputs, each)[1] if windowed[each.side] else None for each in own]


def _rows_of(given: OperatorRows, own: Sequence[_Given], results: Results) -> Rows:
    """The rows of outputs."""
    key, value, old = given.outputs(results)
    causes = [own[at] for at in results.causes]
    headers = [() if rows is None else rows.headers.values() for rows in given.inputs]
    return Rows(
        key=key,
        value=value,
        old=old,
        times=Listed(results.times),
        headers=Listed([headers[each.side][each.at] for each in causes]),
        origin=Origin(
            [(*each.ordinal, position) for each, position in zip(causes, positions_of(results.causes), strict=True)],
            [_origin(given.inputs, each)[0] for each in causes],
            [each.task for each in causes],
            results.windows or [None] * len(causes),
        ),
        at=range(len(causes)),
    )


def _joined(pieces: Sequence[Rows]) -> Rows | None:
    """The outputs of all tasks of an operator; None without any."""
    if len(pieces) <= 1:
        return pieces[0] if pieces else None
    parts = [[piece.key for piece in pieces], [piece.value for piece in pieces]]
    key, value = map(_joined_part, parts)
    old = [piece.old for piece in pieces if piece.old is not None]
    origins = [piece.origin for piece in pieces]
    origin = Origin(
        [each for origin in origins for each in origin.ordinals],
        [each for origin in origins for each in origin.causes],
        [each for origin in origins for each in origin.tasks],
        [each for origin in origins for each in origin.windows],
    )
    return Rows(
        key=key,
        value=value,
        old=_joined_part(old) if old else None,
        times=_joined_cells([piece.times for piece in pieces]),
        headers=_joined_cells([piece.headers for piece in pieces]),
        origin=origin,
        at=range(len(origin.ordinals)),
    )


def _joined_part(pieces: Sequence[Part]) -> Part:
    present = [there for piece in pieces for there in piece.present or [True] * piece.size]
    cells = [_joined_cells(cells) for cells in zip(*(piece.cells for piece in pieces), strict=True)]
    return Part(cells, len(present), None if all(present) else present)


def _joined_cells(cells: Sequence[Cells]) -> Cells:
    return Listed([*chain.from_iterable(each.values() for each in cells)])


def _late(stateful: Stateful, late: Late, ordinal: Ordinal, cause: Record) -> tuple[Ordinal, LogEntry]:
    entry = late_entry(stateful.logger, late)
    return ordinal, LogEntry(
        kind=entry["kind"],
        logger=entry["logger"],
        message=entry["message"],
        topic=cause.topic,
        partition=cause.partition,
        offset=cause.offset,
        record=entry["record"],
    )


def _ordinal(row: _Given) -> Ordinal:
    return row.ordinal
