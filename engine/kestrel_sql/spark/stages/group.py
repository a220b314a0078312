"""A group of queries under construction: its stages, stateful levels, sources and sinks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from kestrel_sql.dataflow.query import Build
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.functions.registry import Registry
from kestrel_sql.operators.operator import Operator, Scope
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation, Stage, is_relation, no_headers
from kestrel_sql.types.schema import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """A relation that is read from a topic, with all that is needed to turn bytes into rows."""

    query: int
    relation: int
    topic: str
    key: SerdeSpec
    value: SerdeSpec
    headers: tuple[Column, ...]
    pseudo_version: int
    window: WindowInfo | None
    logger: str
    handle: Handle
    ingestion: IngestionSpec | None = None
    """How messages become rows, for CREATE SOURCE; `key` and `value` then hold the columns of messages."""
    strict: bool = False
    """Whether a record that cannot be read stops the query."""
    silent: bool = False
    """Whether an unreadable record is dropped without a log entry, because another relation logs it."""
    logs_rows: bool = False
    """Whether entries of the processing log contain the bytes that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkWrite:
    """A relation that is written to a topic."""

    query: int
    handle: Handle
    topic: str
    key: SerdeSpec
    value: SerdeSpec
    window: WindowInfo | None
    logger: str
    guarded: bool
    """Whether a row that cannot be written is dropped instead of failing the query.

    So it is below a TIMESTAMP column, and where a DECIMAL may be wider than its type.
    """
    logs_rows: bool = False
    """Whether entries of the processing log contain the row that could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stateful:
    """A stateful operator at a level: its inputs (left, then right), and the relation that it produces."""

    query: int
    operator: Operator
    inputs: tuple[Handle, ...]
    output: Handle
    logger: str


@dataclass(slots=True)
class Group:
    """The parts of several queries that run as one pipeline."""

    functions: Registry
    stages: list[Stage] = field(default_factory=lambda: [Stage()])
    sources: list[SourceRead] = field(default_factory=list)
    sinks: list[SinkWrite] = field(default_factory=list)
    levels: list[list[Stateful]] = field(default_factory=list)
    python: PythonCalls = field(default_factory=PythonCalls)
    entries: dict[tuple[int, int], Handle] = field(default_factory=dict)
    """The relations that enter each stage, by (level, relation)."""
    ends: dict[int, Handle] = field(default_factory=dict)
    """The result of each query's root step, by query number."""
    plans: dict[int, QueryPlan] = field(default_factory=dict)
    """The plan of each query, by query number."""
    relations: int = 0

    def new_relation(self) -> int:
        """Return an unused relation number."""
        self.relations += 1
        return self.relations - 1

    def stage(self, level: int) -> Stage:
        """Return the stage after `level` stateful levels, making it if needed."""
        while len(self.stages) <= level:
            self.stages.append(Stage())
            self.levels.append([])
        return self.stages[level]

    def lift(self, handle: Handle, level: int) -> Handle:
        """Let a relation pass unchanged up to `level`."""
        for between in range(handle.level + 1, level + 1):
            self.stage(between).relation(handle.relation)
            self.entries[between, handle.relation] = handle
        return handle.at(level)

    def add_stateful(self, stateful: Stateful) -> Handle:
        """Add an operator after the stage that its inputs have reached, and return its output."""
        self.stage(stateful.output.level).relation(stateful.output.relation)
        self.entries[stateful.output.level, stateful.output.relation] = stateful.output
        self.levels[stateful.output.level - 1].append(stateful)
        return stateful.output


@dataclass(slots=True, kw_only=True)
class QueryBuild(Build[Handle]):
    """The build of one query inside a group."""

    group: Group
    query: int

    def context(self, handle: Handle, part: str = "v", *, nested: bool) -> Context:
        """The context to compile expressions over a relation's value (`v`), previous value (`o`) or key (`k`)."""
        columns = handle.keys() if part == "k" else handle.values(part)
        return Context(
            columns=columns,
            python=self.group.python,
            nested=nested and self.flag("ksql.nested.error.set.null"),
            preserve_nulls=self.flag("ksql.cast.strings.preserve.nulls"),
            settings=self.settings,
            active=is_relation(handle.relation),
        )

    def apply(self, handle: Handle, operation: Operation, result: Handle) -> Handle:
        """Add an operation to a relation, and return `result`, the relation after it."""
        if operation.faults and self.logs_rows:
            operation = replace(operation, record=_json_row(handle))
        self.group.stage(handle.level).add(handle.relation, operation, result.struct_type())
        return result

    def with_keys(self, source: Handle) -> Handle:
        """Add an operation that drops the rows without a key; the key has one column."""
        present = s.is_not_null(source.part("k", source.schema.key[0].name))
        return self.apply(source, Operation(fields=source.unchanged(), keep=present), source)

    def without_headers(self, source: Handle, logger: str) -> Handle:
        """Add an operation that takes the headers of rows away."""
        operation = Operation(fields=source.unchanged(), headers=no_headers(), logger=logger)
        return self.apply(source, operation, source)

    def stateful(self, made: tuple[Operator, Handle], inputs: tuple[Handle, ...], logger: str) -> Handle:
        """Add an operator over `inputs`, with the facts of what it gives, and return its output."""
        operator, facts = made
        level = max(handle.level for handle in inputs)
        lifted = tuple(self.group.lift(handle, level) for handle in inputs)
        # A query-wide operator has no tasks: its output rows go back to the tasks of their keys.
        output = replace(
            facts, relation=self.group.new_relation(), level=level + 1, rekeyed=operator.scope is Scope.QUERY
        )
        return self.group.add_stateful(
            Stateful(query=self.query, operator=operator, inputs=lifted, output=output, logger=logger)
        )


def _json_row(handle: Handle) -> Tree:
    """The value of a row as a JSON array, as SQL; NULL for a tombstone."""
    values = [_json(handle.part("v", column.name)) for column in handle.schema.value]
    return s.if_(
        s.is_not_null(handle.part("v")),
        s.call("concat", s.text("["), s.call("concat_ws", s.text(","), *values), s.text("]")),
    )


def _json(value: Tree) -> Tree:
    """A value of any type as JSON, as SQL.

    Spark writes only structs as JSON, so it is cut out of a struct with one field.
    """
    whole = s.call(
        "to_json", s.named_struct([("v", value)]), s.call("map", s.text("ignoreNullFields"), s.text("false"))
    )
    return s.call(
        "substring",
        whole,
        s.integer(len('{"v":') + 1),
        s.binary(exp.Sub, s.call("length", whole), s.integer(len('{"v":}'))),
    )
