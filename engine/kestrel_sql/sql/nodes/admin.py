"""Nodes of statements that inspect or control the engine, and of test statements."""

from __future__ import annotations

from dataclasses import dataclass

from kestrel_sql.sql.nodes.expressions import Expression, Node
from kestrel_sql.sql.nodes.kafka_source import CreateGeneratedSource, CreateKafkaSource
from kestrel_sql.sql.nodes.statements import (
    AlterSource,
    AlterSystem,
    CreateAs,
    CreateSource,
    CreateType,
    DefineVariable,
    DropSource,
    DropType,
    Element,
    InsertInto,
    InsertValues,
    Properties,
    Query,
    SetProperty,
    SourceKind,
    TimeSpan,
    UndefineVariable,
    UnsetProperty,
)


@dataclass(frozen=True, slots=True)
class ListObjects(Node):
    """LIST or SHOW of one kind: PROPERTIES, TOPICS, ALL TOPICS, STREAMS, TABLES, QUERIES, FUNCTIONS, TYPES and more."""

    what: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Node):
    """DESCRIBE; `what` is SOURCE, STREAMS, TABLES, FUNCTION or CONNECTOR, `name` is None for STREAMS and TABLES."""

    what: str
    name: str | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True)
class PrintTopic(Node):
    """PRINT topic."""

    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ControlQuery(Node):
    """TERMINATE, PAUSE or RESUME (`verb`) of one query, or of all if `query_id` is None."""

    verb: str
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class CreateConnector(Node):
    """CREATE SOURCE|SINK CONNECTOR."""

    kind: str
    name: str
    properties: Properties
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConnector(Node):
    """DROP CONNECTOR."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Explain(Node):
    """EXPLAIN of a statement, or of a running query by its id."""

    target: Statement | str


@dataclass(frozen=True, slots=True)
class AssertTopic(Node):
    """ASSERT [NOT EXISTS] TOPIC."""

    topic: str
    properties: Properties = ()
    timeout: TimeSpan | None = None
    exists: bool = True


@dataclass(frozen=True, slots=True)
class AssertSchema(Node):
    """ASSERT [NOT EXISTS] SCHEMA."""

    subject: str | None = None
    id: int | None = None
    timeout: TimeSpan | None = None
    exists: bool = True


@dataclass(frozen=True, slots=True)
class AssertValues(Node):
    """ASSERT VALUES (test scripts)."""

    source: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AssertNullValues(Node):
    """ASSERT NULL VALUES (test scripts)."""

    source: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AssertSource(Node):
    """ASSERT STREAM|TABLE (test scripts)."""

    kind: SourceKind
    name: str
    elements: tuple[Element, ...] = ()
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class RunScript(Node):
    """RUN SCRIPT 'path' (test scripts)."""

    path: str


Statement = (
    Query
    | CreateSource
    | CreateAs
    | CreateKafkaSource
    | CreateGeneratedSource
    | InsertInto
    | InsertValues
    | DropSource
    | CreateType
    | DropType
    | AlterSource
    | SetProperty
    | UnsetProperty
    | AlterSystem
    | DefineVariable
    | UndefineVariable
    | ListObjects
    | Describe
    | PrintTopic
    | ControlQuery
    | CreateConnector
    | DropConnector
    | Explain
    | AssertTopic
    | AssertSchema
    | AssertValues
    | AssertNullValues
    | AssertSource
    | RunScript
)
