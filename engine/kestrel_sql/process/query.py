"""A query that runs in this process: batches of records in, records and log entries out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from kestrel_sql.dataflow.graph import Chain, Graph, Stateful
from kestrel_sql.dataflow.log_entries import FATAL, late_entry
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Entry, Listed, Ordinal, Output, Part, Rows
from kestrel_sql.formats.serde import describe
from kestrel_sql.operators.late_rows import Late, note_row, take
from kestrel_sql.operators.operator import Key, PacksState, Row, Scope, State
from kestrel_sql.operators.operator import Output as Result
from kestrel_sql.operators.state_codec import bucket_rows, dump_state, load_state
from kestrel_sql.process.batches import Made, Origin, ordinals_of
from kestrel_sql.process.reading import Reader
from kestrel_sql.process.writing import Writer
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Headers, LogEntry, Record

FAILED = "failed"
"""The part of a state that says that its operator failed; it gets no more rows."""

Checkpoint = dict[tuple[int, int], bytes]
"""The encoded state of each operator, by the number of its output, and task."""


@dataclass(slots=True, kw_only=True)
class _Given(Row):
    """A row for an operator, with what its results inherit."""

    ordinal: Ordinal
    cause: Record
    headers: Headers
    task: int


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
                if any(inputs):
                    flowing[stateful.output.number] = self._stateful(stateful, inputs, made)
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

    def _stateful(self, stateful: Stateful, inputs: Sequence[Rows | None], made: Made) -> Rows:
        """Pass rows through an operator, in the order of their ordinals."""
        given = list(chain.from_iterable(self._sided(stateful, side, rows) for side, rows in enumerate(inputs) if rows))
        given.sort(key=_ordinal)
        found: list[tuple[_Given, Ordinal, Result]] = []
        touched: dict[int, State] = {}
        for row in given:
            state = touched.get(row.task)
            if state is None:
                state = touched[row.task] = self._states.setdefault((stateful.output.number, row.task), {})
            if FAILED not in state:
                found += _processed(stateful, row, state, made)
        for state in touched.values():
            late = take(state)
            if late is not None:
                made.entries.append(_late(stateful, late))
            if isinstance(stateful.operator, PacksState):
                stateful.operator.pack(state)
            if stateful.operator.scope is not Scope.TASK:
                bucket_rows(state)
        return _rows_of(found, stateful.output)

    def _sided(self, stateful: Stateful, side: int, rows: Rows) -> Iterator[_Given]:
        """The rows of an input as the operator takes them: with its side, its task, and NULL for a key of a NULL."""
        relation, operator = stateful.inputs[side], stateful.operator
        for row in _given(relation, side, rows):
            if operator.scope is Scope.QUERY:
                row.task = 0
                yield row
                continue
            row.task %= self.tasks
            if relation.rekeyed and self.tasks > 1:
                task, old = self._task(stateful, row.key, row.task), self._task(stateful, row.old_key, row.task)
                if row.key is None and row.old_key is not None:
                    task = old
                elif row.old_key is not None and old != task:
                    # A change that moves a row of a table to a group of another task becomes two.
                    yield replace(row, key=None, value=None, task=old, ordinal=(*row.ordinal, 0))
                    yield replace(row, old=None, old_key=None, task=task, ordinal=(*row.ordinal, 1))
                    continue
                row.task = task
            yield row

    def _task(self, stateful: Stateful, key: Key | None, default: int) -> int:
        if key is None or key[0] is None:
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


def _given(relation: Relation, side: int, rows: Rows) -> Iterator[_Given]:
    origin, nothing = rows.origin, [None] * rows.size
    single = len(relation.schema.key) == 1
    windowed = relation.window is not None
    columns = zip(
        rows.at,
        ordinals_of(rows),
        _keys(rows.key, single=single),
        rows.value.rows(),
        nothing if rows.old is None else rows.old.rows(),
        nothing if rows.old_key is None else _keys(rows.old_key, single=single),
        nothing if rows.extra is None else rows.extra.rows(),
        rows.times.values(),
        rows.headers.values(),
        strict=True,
    )
    for at, ordinal, key, value, old, old_key, extra, timestamp, headers in columns:
        yield _Given(
            side,
            key,
            value,
            timestamp,
            old,
            old_key,
            origin.windows[at] if windowed else None,
            None if extra is None or None in extra else extra,
            ordinal=ordinal,
            cause=origin.causes[at],
            headers=headers,
            task=origin.tasks[at],
        )


def _keys(part: Part, *, single: bool) -> list[Key | None]:
    """The keys; one whose only column is NULL is None."""
    keys = part.rows()
    return [None if key is None or key[0] is None else key for key in keys] if single else keys


def _processed(stateful: Stateful, row: _Given, state: State, made: Made) -> Iterator[tuple[_Given, Ordinal, Result]]:
    try:
        outputs = [*stateful.operator.process(row, state)]
    except Exception as error:  # noqa: BLE001 - any error of an aggregate fails this query and no other
        state[FAILED] = True
        message = f"Exception caught in process. {describe(error)}"
        entry = Entry(kind=FATAL, logger=stateful.logger, message=message, cause=(describe(error),))
        made.log(row.ordinal, row.cause, entry)
        return
    note_row(state, lambda: row)
    for position, each in enumerate(outputs):
        yield row, (*row.ordinal, position), each


def _rows_of(found: Sequence[tuple[_Given, Ordinal, Result]], relation: Relation) -> Rows:
    """The rows of what an operator gave."""
    schema = relation.schema
    outputs = [output for _, _, output in found]
    of_value = len(schema.value)
    return Rows(
        key=Part.of([output.key for output in outputs], len(schema.key)),
        value=Part.of([output.value for output in outputs], of_value),
        old=Part.of([output.old for output in outputs], of_value) if relation.has_old else None,
        times=Listed([output.timestamp for output in outputs]),
        headers=Listed([row.headers for row, _, _ in found]),
        origin=Origin(
            [ordinal for _, ordinal, _ in found],
            [row.cause for row, _, _ in found],
            [row.task for row, _, _ in found],
            [output.window for output in outputs],
        ),
        at=range(len(found)),
    )


def _ordinal(row: _Given) -> Ordinal:
    return row.ordinal


def _late(stateful: Stateful, late: Late) -> tuple[Ordinal, LogEntry]:
    entry, row = late_entry(stateful.logger, late), late.row
    return row.ordinal, LogEntry(
        kind=entry["kind"],
        logger=entry["logger"],
        message=entry["message"],
        topic=row.cause.topic,
        partition=row.cause.partition,
        offset=row.cause.offset,
        record=entry["record"],
    )
