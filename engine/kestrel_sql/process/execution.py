"""Queries of an engine in this process: they go on with further records, their tables can be read, plans replaced."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.graph import Graph, Stateful
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.queryable import QueryableTable, queryable_table
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import CheckpointError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.java.regex.time_limit import check_work
from kestrel_sql.operators.operator import Key
from kestrel_sql.operators.table_rows import StoredRow, table_rows
from kestrel_sql.operators.tables.materialise import Materialise
from kestrel_sql.operators.tables.table_store import TableStore
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.process.query import ProcessQuery
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import SqlType

_MANY = 10_000
"""From how many rows on a piece of a batch is not followed by a larger one."""


class ProcessTable:
    """The table that a query materialises; it is read while the query goes on."""

    def __init__(self, query: ProcessQuery, reading: Lock, table: QueryableTable) -> None:
        self._query, self._reading = query, reading
        self.operator, self.facts, self.steps = table.stateful.operator, table.stateful.output, table.steps

    def entries(self, keys: Sequence[Key] | None) -> list[StoredRow]:
        """Return the rows of the keys, or all rows, without an order."""
        wanted = None if keys is None else {self.operator.key_bytes(key) for key in keys}
        windowed = self.facts.window is not None
        with self._reading:
            states = self._query.states(self.facts.number)
            return [row for state in states for row in table_rows(self.operator, state, wanted, windowed)]


class ProcessExecution:
    """A query with its state; one thread lets it go on, others may read its table at the same time."""

    def __init__(self, run: QueryRun, functions: Registry) -> None:
        """Start without state and input.

        Raises:
            EngineError: the query cannot be built.
        """
        self._run, self._functions = run, functions
        self._query = ProcessQuery(build_graph([run], functions))
        self._reading = Lock()

    @property
    def window(self) -> WindowInfo | None:
        """The window of the keys that it writes."""
        return self._query.graph.ends[0].window

    def advance(self, records: Sequence[Record]) -> Output:
        """Process further records, and return the output for them.

        They come in pieces, which are small where table functions make many rows of each record.

        Raises:
            WorkTimeError: it takes too long for a request.
        """
        output, at, size = Output(), 0, 1
        with self._reading:
            while at < len(records):
                check_work()
                before = len(output.records)
                self._query.process(records[at : at + size], output)
                at, size = at + size, 2 * size if len(output.records) - before < _MANY else 1
        return output

    def upgrade(self, run: QueryRun) -> None:
        """Continue with another plan and the same state.

        Raises:
            CheckpointError: the plan has other operators.
        """
        graph = build_graph([run], self._functions)
        before, after = _operators(self._query.graph), _operators(graph)
        pairs = list(zip(before, after, strict=False))
        if len(before) != len(after) or not all(_fits(old, new) for old, new in pairs):
            raise CheckpointError(
                f"the query {run.plan.query_id} cannot resume from its state: that is the state of"
                f" {_text(self._query.graph)}, and the new plan needs that of {_text(graph)}",
                hint="drop and recreate it",
            )
        upgraded = ProcessQuery(graph)
        with self._reading:
            for old, new in pairs:
                upgraded.take_over(self._query, old.output.number, new.output.number, _positions(old, new))
            self._query = upgraded
        self._run = run

    def table(self) -> ProcessTable | None:
        """Return the table that the query materialises; None if it materialises none."""
        found = queryable_table(self._query.graph, 0, self._run.plan.physical_plan)
        return None if found is None else ProcessTable(self._query, self._reading, found)

    def close(self) -> None:
        """Do nothing: the state goes with the query."""


def _operators(graph: Graph) -> list[Stateful]:
    return sorted((each for level in graph.levels for each in level), key=lambda stateful: stateful.output.number)


def _fits(old: Stateful, new: Stateful) -> bool:
    """Whether an operator can go on with the state of another."""
    if type(old.operator) is not type(new.operator):
        return False
    read = list(zip((each.schema for each in old.inputs), (each.schema for each in new.inputs), strict=True))
    if any(_types(before.key) != _types(after.key) for before, after in read):
        return False
    match old.operator:
        case TableStore():
            return True
        case Materialise():
            return all(dict(_types(a.value)).items() <= dict(_types(b.value)).items() for a, b in read)
        case _:
            return all(_types(before.value) == _types(after.value) for before, after in read)


def _types(columns: Sequence[Column]) -> list[tuple[str, SqlType]]:
    return [(column.name, column.type) for column in columns]


def _positions(old: Stateful, new: Stateful) -> tuple[int | None, ...] | None:
    """For each column of a store its index in older rows, None for a new column; None if nothing was added."""
    if not isinstance(old.operator, Materialise):
        return None
    before, after = (_types(each.inputs[0].schema.value) for each in (old, new))
    names = [name for name, _ in before]
    return None if before == after else tuple(names.index(n) if n in names else None for n, _ in after)


def _text(graph: Graph) -> str:
    shown = []
    for stateful in _operators(graph):
        columns = "; ".join(", ".join(map(str, each.schema.columns)) for each in stateful.inputs)
        shown.append(f"{type(stateful.operator).__name__}({columns})")
    return ", ".join(shown) or "no operator"
