"""Stages: the stateless work on the rows of all queries of a group between two stateful levels, as one Spark SQL text.

The column `rel` of a row names its relation. Each relation has one struct column, which is NULL in the rows of other
relations. A stage is a list of layers; a layer is one SELECT that applies at most one operation to each relation. A
group of sixty queries therefore costs one scan, one projection and no union.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from kestrel_sql.dataflow.log_entries import FATAL, PROCESSING
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Fault
from kestrel_sql.spark.compile.sql import Tree

LOG_ONLY = -1
"""The relation of a dropped row that only carries entries of the processing log."""

LOG_TYPE = "ARRAY<STRUCT<kind: INT, logger: STRING, message: STRING, cause: ARRAY<STRING>, record: STRING>>"

ENVELOPE: Mapping[str, str] = {
    "rel": "INT",
    "q": "INT",
    "ordinal": "ARRAY<BIGINT>",
    "ts": "BIGINT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "ws": "BIGINT",
    "we": "BIGINT",
    "topic": "STRING",
    "part": "INT",
    "off": "BIGINT",
    "task": "INT",
    "log": LOG_TYPE,
}
"""The columns of every row besides the struct of its relation, with their Spark types.

They are: relation and query number; the ordinal (the number of the input record, then positions among the rows that
came from it); timestamp (ms); headers; window bounds (ms); topic, partition and offset of the source record; the task
(the partition of the key, as in Kafka Streams); and entries of the processing log that are not written yet.
"""


CARRIED, AT, LOGGED = "carried", "at", "logged"
PACKED_COLUMNS: Mapping[str, str] = {CARRIED: "BINARY", AT: "INT", LOGGED: "BOOLEAN"}
"""The columns that replace the carried columns of a row while it is in Spark SQL (ADR 25), with their Spark types.

They are: a blob with the carried columns of this row and those after it (NULL in all rows but the first), the index of
the row in the blob, and whether its log has entries.
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """One stateless step on one relation.

    Attributes:
        fields: the new fields of the relation's struct.
        keep: drops the rows for which it is not true.
        timestamp: the new timestamp (ms); None keeps that of the row.
        faults: what may go wrong in a row; each adds an entry to its log.
        rows: the number of rows that replace each row; the trees in `fields` may then use `POSITION` (from 0).
        headers: the new headers; None keeps those of the row.
        logger: the logger of the entries.
        fatal: whether a fault stops the query.
        record: the row as the entries of the processing log show it.
    """

    fields: tuple[tuple[str, Tree], ...]
    keep: Tree | None = None
    timestamp: Tree | None = None
    faults: tuple[Fault, ...] = ()
    rows: Tree | None = None
    headers: Tree | None = None
    logger: str = ""
    fatal: bool = False
    record: Tree = s.NULL

    def replaced(self) -> Mapping[str, Tree]:
        """The new values of the envelope columns that the operation replaces, by column."""
        given = {"ts": self.timestamp, "headers": self.headers}
        return {name: tree for name, tree in given.items() if tree is not None}

    def trees(self) -> Iterator[Tree]:
        """All trees of the operation."""
        yield from (tree for _, tree in self.fields)
        yield from (tree for fault in self.faults for tree in (fault.condition, fault.cause))
        yield from (tree for tree in (self.keep, self.rows, self.record) if tree is not None)
        yield from self.replaced().values()


POSITION = exp.to_identifier("_position", quoted=True)


def no_headers() -> Tree:
    """The headers of a record that has none."""
    return s.cast_text(s.call("array"), ENVELOPE["headers"])


def struct_column(relation: int) -> str:
    """The name of a relation's struct column."""
    return f"r{relation}"


@dataclass(slots=True)
class Stage:
    """The operations on every relation that exists between two levels."""

    operations: dict[int, list[Operation]] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    """The Spark types of the structs after the operations, by relation."""

    def add(self, relation: int, operation: Operation, struct_type: str) -> None:
        """Append an operation to a relation; `struct_type` is the Spark type of its struct afterwards."""
        self.operations.setdefault(relation, []).append(operation)
        self.types[relation] = struct_type

    def relation(self, relation: int) -> None:
        """Let a relation pass through the stage unchanged."""
        self.operations.setdefault(relation, [])

    def without(self, relations: Collection[int]) -> Stage:
        """Return the stage without the operations on these relations, which then pass unchanged."""
        return Stage({relation: [] if relation in relations else found for relation, found in self.operations.items()})

    def carried(self) -> frozenset[str]:
        """The envelope columns that no operation reads or replaces.

        `log` is among them, because operations only append to it.

        Empty if an operation turns one row into several: the row with the blob of carried columns could be multiplied.
        """
        operations = [each for found in self.operations.values() for each in found]
        if any(each.rows is not None for each in operations):
            return frozenset()
        used = {column.name for each in operations for tree in each.trees() for column in tree.find_all(exp.Column)}
        used |= {name for each in operations for name in each.replaced()}
        return frozenset(ENVELOPE) - used - {"rel"}

    def sql(self, source: str, carried: Collection[str] = ()) -> str:
        """Return the stage as Spark SQL over the view `source`, which has `PACKED_COLUMNS` instead of `carried`."""
        names = [name for name in ENVELOPE if name not in carried]
        text, alive = f"SELECT * FROM {source}", ["rel >= 0"]
        if carried:
            names += PACKED_COLUMNS
            alive += [f"`{LOGGED}`", f"`{CARRIED}` IS NOT NULL"]
        if carried and any(each.faults for found in self.operations.values() for each in found):
            names.append("log")
            text = f"SELECT *, CAST(array() AS {LOG_TYPE}) AS log FROM {source}"
        if "log" in names:
            alive.append("size(log) > 0")
        depth = max((len(ops) for ops in self.operations.values()), default=0)
        for index in range(depth):
            layer = {rel: ops[index] for rel, ops in self.operations.items() if index < len(ops)}
            text = _layer(text, layer, names, self.operations)
        return f"SELECT * FROM ({text}) WHERE {' OR '.join(alive)}"


def _layer(inner: str, layer: Mapping[int, Operation], names: Iterable[str], relations: Iterable[int]) -> str:
    exploding = {rel: op for rel, op in layer.items() if op.rows is not None}
    columns: dict[str, Tree] = {name: s.column(name) for name in names}
    columns["rel"] = _relation(layer, exploding)
    columns.update(_replaced(layer))
    if exploding:
        grown = s.call("concat", s.column("ordinal"), s.call("array", s.cast_text(POSITION, "BIGINT")))
        columns["ordinal"] = _by_relation(dict.fromkeys(exploding, grown), s.column("ordinal"))
    for relation in relations:
        name = struct_column(relation)
        operation = layer.get(relation)
        columns[name] = (
            s.column(name)
            if operation is None
            else s.case([(is_relation(relation), s.named_struct(operation.fields))], None)
        )
    selected = ", ".join(f"{s.to_text(tree)} AS `{name}`" for name, tree in columns.items())
    view = f" LATERAL VIEW explode({s.to_text(_positions(exploding))}) _positions AS `_position`" if exploding else ""
    return f"SELECT {selected} FROM ({inner}){view}"


def is_relation(relation: int) -> Tree:
    """The condition that a row belongs to a relation."""
    return s.binary(exp.EQ, s.column("rel"), s.integer(relation))


def _relation(layer: Mapping[int, Operation], exploding: Mapping[int, Operation]) -> Tree:
    dropped = [
        (s.all_of(is_relation(rel), s.not_(s.coalesce_false(op.keep))), s.integer(LOG_ONLY))
        for rel, op in layer.items()
        if op.keep is not None
    ]
    if exploding:
        dropped.append((s.binary(exp.LT, POSITION, s.integer(0)), s.integer(LOG_ONLY)))
    return s.case(dropped, s.column("rel")) if dropped else s.column("rel")


def _replaced(layer: Mapping[int, Operation]) -> dict[str, Tree]:
    """The envelope columns that the operations of a layer replace."""
    names = dict.fromkeys(name for op in layer.values() for name in op.replaced())
    columns = {
        name: _by_relation({rel: op.replaced().get(name) for rel, op in layer.items()}, s.column(name))
        for name in names
    }
    faulty = {rel: op for rel, op in layer.items() if op.faults}
    return {**columns, "log": _log(faulty)} if faulty else columns


def _by_relation(trees: Mapping[int, Tree | None], default: Tree) -> Tree:
    branches = [(is_relation(rel), tree) for rel, tree in trees.items() if tree is not None]
    return s.case(branches, default) if branches else default


def _log(faulty: Mapping[int, Operation]) -> Tree:
    branches = [(is_relation(relation), _entries(operation)) for relation, operation in faulty.items()]
    return s.call("concat", s.column("log"), s.case(branches, s.cast_text(s.call("array"), LOG_TYPE)))


def _entries(operation: Operation) -> Tree:
    """The log entries of a row: those of the faults whose condition holds."""
    entries = [s.if_(s.coalesce_false(fault.condition), _entry(operation, fault)) for fault in operation.faults]
    return s.cast_text(s.call("array_compact", s.call("array", *entries)), LOG_TYPE)


def entry(operation: Operation, fault: Fault) -> dict[str, Any]:
    """The log entry of a fault, without the record."""
    kind = FATAL if operation.fatal else PROCESSING
    return {"kind": kind, "logger": operation.logger, "message": fault.message, "cause": None, "record": None}


def _entry(operation: Operation, fault: Fault) -> Tree:
    known = entry(operation, fault)
    return s.named_struct(
        [
            ("kind", s.integer(known["kind"])),
            ("logger", s.text(known["logger"])),
            ("message", s.text(known["message"])),
            ("cause", fault.cause),
            ("record", operation.record),
        ]
    )


def _positions(exploding: Mapping[int, Operation]) -> Tree:
    """The positions of the rows that replace a row; -1 keeps a row without replacement that has log entries."""
    one = s.call("array", s.integer(0))
    nothing = s.cast_text(s.call("array"), "ARRAY<INT>")
    only_log = s.if_(
        s.binary(exp.GT, s.call("size", s.column("log")), s.integer(0)), s.call("array", s.integer(-1)), nothing
    )
    branches = []
    for relation, operation in exploding.items():
        rows = operation.rows or s.integer(0)
        some = s.call("sequence", s.integer(0), s.binary(exp.Sub, rows, s.integer(1)))
        branches.append((is_relation(relation), s.if_(s.binary(exp.GT, rows, s.integer(0)), some, only_log)))
    return s.case(branches, one)
