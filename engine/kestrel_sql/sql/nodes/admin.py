"""Nodes of statements that inspect or control the engine, and of test statements."""

from __future__ import annotations

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


class ListObjects(Node, frozen=True):
    """LIST or SHOW of one kind: PROPERTIES, TOPICS, ALL TOPICS, STREAMS, TABLES, QUERIES, FUNCTIONS, TYPES and more."""

    what: str
    extended: bool = False


class Describe(Node, frozen=True):
    """DESCRIBE; `what` is SOURCE, STREAMS, TABLES, FUNCTION or CONNECTOR, `name` is None for STREAMS and TABLES."""

    what: str
    name: str | None = None
    extended: bool = False


class PrintTopic(Node, frozen=True):
    """PRINT topic."""

    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


class ControlQuery(Node, frozen=True):
    """TERMINATE, PAUSE or RESUME (`verb`) of one query, or of all if `query_id` is None."""

    verb: str
    query_id: str | None = None


class CreateConnector(Node, frozen=True):
    """CREATE SOURCE|SINK CONNECTOR."""

    kind: str
    name: str
    properties: Properties
    if_not_exists: bool = False


class DropConnector(Node, frozen=True):
    """DROP CONNECTOR."""

    name: str
    if_exists: bool = False


class Explain(Node, frozen=True):
    """EXPLAIN of a statement, or of a running query by its id."""

    target: Statement | str


class AssertTopic(Node, frozen=True):
    """ASSERT [NOT EXISTS] TOPIC."""

    topic: str
    properties: Properties = ()
    timeout: TimeSpan | None = None
    exists: bool = True


class AssertSchema(Node, frozen=True):
    """ASSERT [NOT EXISTS] SCHEMA."""

    subject: str | None = None
    id: int | None = None
    timeout: TimeSpan | None = None
    exists: bool = True


class AssertValues(Node, frozen=True):
    """ASSERT VALUES (test scripts)."""

    source: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


class AssertNullValues(Node, frozen=True):
    """ASSERT NULL VALUES (test scripts)."""

    source: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


class AssertSource(Node, frozen=True):
    """ASSERT STREAM|TABLE (test scripts)."""

    kind: SourceKind
    name: str
    elements: tuple[Element, ...] = ()
    properties: Properties = ()


class RunScript(Node, frozen=True):
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
