"""The ids and results of statements that change the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kestrel_sql.admin.answer import Entity
from kestrel_sql.admin.effects import effect_of
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import StatementError
from kestrel_sql.java.regex.patterns import BadPatternError, compile_pattern
from kestrel_sql.java.regex.timed_matching import is_match
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.planner.internal_topics import is_internal
from kestrel_sql.server.service import CommandStatus
from kestrel_sql.session.session import Executed
from kestrel_sql.sql.nodes.admin import ControlQuery, Statement
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource
from kestrel_sql.sql.nodes.statements import (
    AlterSource,
    AlterSystem,
    CreateAs,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    InsertInto,
)
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.types.sql_types import quote

Command = (
    CreateSource
    | CreateKafkaSource
    | CreateAs
    | InsertInto
    | DropSource
    | AlterSource
    | AlterSystem
    | CreateType
    | DropType
    | ControlQuery
)
"""Statements that a ksqlDB server sends through its command topic."""


TERMINATE_ID = "terminate/CLUSTER/execute"
"""The id of the command that ends the service."""


def terminated_sinks(sources: Iterable[Source], topics: Sequence[str], settings: Mapping[str, str]) -> list[Source]:
    """The sinks of CREATE AS whose topics TERMINATE CLUSTER deletes: those that match a regular expression.

    Internal topics stay.

    Raises:
        StatementError: `topics` has no regular expression.
    """
    for topic in topics:
        try:
            compile_pattern(topic)
        except BadPatternError as error:
            raise StatementError(f"Invalid pattern {topic!r}: {error}") from error
    made = (source for source in sources if source.created_by is not None)
    created = [source for source in made if not is_internal(source.topic, settings)]
    return [source for source in created if any(is_match(topic, source.topic) for topic in topics)]


def command_id(statement: Command, sources: dict[str, Source], unique: str) -> str:
    """The id of a command, `type/entity/action`; `unique` stands for the entity of one that has no name."""
    match statement:
        case InsertInto():
            return f"stream/{quote(statement.target)}/create"
        case CreateSource() | CreateAs():
            return f"{statement.kind.value.lower()}/{quote(statement.name)}/create"
        case CreateKafkaSource():
            source = sources.get(statement.name)
            kind = "table" if source is not None and source.kind.value == "TABLE" else "stream"
            return f"{kind}/{quote(statement.name)}/create"
        case DropSource():
            return f"{statement.kind.value.lower()}/{statement.name}/drop"
        case AlterSource():
            return f"{statement.kind.value.lower()}/{statement.name}/alter"
        case CreateType():
            return f"type/{statement.name}/create"
        case DropType():
            return f"type/{statement.name}/drop"
        case ControlQuery():
            return f"{statement.verb.lower()}/{statement.query_id or 'ALL'}/execute"
        case AlterSystem():
            return f"cluster/{unique}/alter"


def success(statement: Statement, done: Executed | None, dropped: Source | None) -> CommandStatus:
    """The status of a command that was executed; `dropped` is the source that it removed."""
    query = None if done is None else done.created_query
    return CommandStatus(status="SUCCESS", message=effect_of(statement, done, dropped), query_id=query)


def replayed(parsed: ParsedStatement, plan: StatementPlan | None, sources: Mapping[str, Source]) -> CommandStatus:
    """The status of a command that was carried out again; `sources` were there before it."""
    statement = parsed.statement
    dropped = sources.get(statement.name) if isinstance(statement, DropSource) else None
    return success(statement, Executed(statement=parsed, plan=plan), dropped)


def current_status(text: str, command: str, status: CommandStatus, sequence: int) -> Entity:
    """The entity of a command."""
    return {
        "@type": "currentStatus",
        "statementText": text,
        "commandId": command,
        "commandStatus": status.to_json(),
        "commandSequenceNumber": sequence,
        "warnings": [],
    }
