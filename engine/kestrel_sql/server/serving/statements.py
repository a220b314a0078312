"""Statements of a request: tried on a copy of the session, then carried out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeGuard, get_args
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from kestrel_sql.admin.answer import Entity
from kestrel_sql.admin.entities.answers import entity_of
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import EngineError, FunctionError, StatementError, attach_span
from kestrel_sql.planner.analysis.scope import scope_of_query
from kestrel_sql.planner.config import Config
from kestrel_sql.server.commands import Command, command_id, current_status, success
from kestrel_sql.server.errors import ASSERTION_FAILED, BAD_REQUEST, QUERY_ENDPOINT, ApiError, api_error
from kestrel_sql.server.normal_form import normal_form
from kestrel_sql.server.properties import altered_system
from kestrel_sql.server.sandbox import trial_session
from kestrel_sql.server.secrets import without_values
from kestrel_sql.server.serving.backend import Backend, Written
from kestrel_sql.server.traces import Traces
from kestrel_sql.session.insert_values import insert_record
from kestrel_sql.session.session import Executed, Session
from kestrel_sql.sql.nodes.admin import (
    AssertSchema,
    AssertTopic,
    ControlQuery,
    CreateConnector,
    Describe,
    DropConnector,
    PrintTopic,
)
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource
from kestrel_sql.sql.nodes.statements import AlterSystem, CreateAs, CreateSource, DropSource, InsertValues, Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import Record

_COMMANDS: tuple[type, ...] = get_args(Command)


def is_command(statement: object) -> TypeGuard[Command]:
    """Whether a statement changes the engine, so that a ksqlDB server writes it into its command topic."""
    return isinstance(statement, _COMMANDS)


def opens(statement: object) -> bool:
    """Whether a statement may start something that keeps files and sockets open."""
    return is_command(statement) and not isinstance(statement, ControlQuery | DropSource)


def _misplaced(parsed: ParsedStatement, session: Session) -> ApiError:
    """Say where a SELECT or PRINT belongs, if its sources are there."""
    if isinstance(parsed.statement, Query):
        scope_of_query(parsed.statement, session.catalog)
    message = (
        "The following statement types should be issued to the websocket endpoint '/query':\n\t* PRINT\n\t* SELECT"
    )
    return ApiError(QUERY_ENDPOINT, message, statement=parsed.text)


class Statements(msgspec.Struct):
    """Carries out the statements of requests on one engine."""

    engine: Backend
    traces: Traces
    host: str
    inserted: int = 0
    """How many rows clients inserted."""
    lines: dict[str, int] = {}
    """The line of each query's statement in the text that brought it; that of an earlier server is not known."""

    def validate(
        self, text: str, statements: Sequence[ParsedStatement], config: Config, variables: dict[str, str]
    ) -> list[Executed | None]:
        """Try all statements of a text on a copy of the engine, and return what is planned for `run`.

        Raises:
            ApiError: a statement would be refused.
        """
        trial = trial_session(self.engine.session, config, variables)
        planned: list[Executed | None] = []
        for parsed in statements:
            try:
                with attach_span(parsed.span):
                    if isinstance(parsed.statement, Query | PrintTopic):
                        raise _misplaced(parsed, trial)
                    planned.append(self._try(parsed, trial))
            except EngineError as error:
                raise api_error(error, parsed.text, text) from error
        limit = config.integer("ksql.query.persistent.active.limit")
        if limit is not None and len(trial.queries) > max(limit, len(self.engine.session.queries)):
            raise ApiError(
                BAD_REQUEST,
                "Not executing statement(s) as it would cause the number of active, persistent queries to exceed the "
                f"configured limit of {limit}. Terminate queries first.",
            )
        return planned

    def _try(self, parsed: ParsedStatement, trial: Session) -> Executed | None:
        match parsed.statement:
            case ControlQuery() as control if self._ends_push(control) is not None:
                pass
            case ControlQuery() as control:
                names = list(trial.queries) if control.query_id is None else [control.query_id]
                for name in names:
                    if name not in trial.queries:
                        raise StatementError(f"Unknown queryId: {name}", span=control.span)
                    if control.verb == "TERMINATE":
                        del trial.queries[name]
            case AlterSystem() as alter:
                trial.config = altered_system(trial.config, alter)
            case AssertTopic() | AssertSchema() | CreateConnector() | DropConnector():
                pass
            case _:
                if self._asked(parsed, trial) is None:
                    return trial.execute(parsed)
        return None

    def run(
        self,
        text: str,
        statements: Sequence[ParsedStatement],
        planned: Sequence[Executed | None],
        config: Config,
        variables: dict[str, str],
    ) -> list[Entity]:
        """Carry out statements one by one, as planned; only the engine's thread may, if any of them is a command.

        Raises:
            ApiError: one failed; those before it have run.
        """
        scope = replace(self.engine.session, config=config, variables=variables)
        entities: list[Entity] = []
        for statement, plan in zip(statements, planned, strict=True):
            parsed = normal_form(statement, self._view(scope))
            try:
                with self.traces.statement(parsed.text), attach_span(parsed.span):
                    entity = self._run(parsed, plan, scope)
            except EngineError as error:
                if isinstance(parsed.statement, AssertTopic | AssertSchema):
                    raise ApiError(ASSERTION_FAILED, error.message) from error
                raise api_error(error, parsed.text, text) from error
            if entity is not None:
                entities.append(entity)
        return entities

    def _run(self, parsed: ParsedStatement, planned: Executed | None, scope: Session) -> Entity | None:
        statement = parsed.statement
        if isinstance(statement, ControlQuery) and (push := self._ends_push(statement)) is not None:
            ended = self.engine.pushes.end(push)
            return {
                "@type": "terminate_query",
                "statementText": parsed.text,
                "queryId": push,
                "wasTerminated": ended,
                "warnings": [],
            }
        if is_command(statement):
            entity = self._command(parsed, statement, planned, scope)
            scope.catalog, scope.counter = self.engine.session.catalog, self.engine.session.counter
            if isinstance(statement, AlterSystem):
                scope.config = altered_system(scope.config, statement)
            return entity
        if isinstance(statement, InsertValues):
            self._insert(parsed, planned)
            return None
        found = self._asked(parsed, scope)
        if found is None:
            scope.execute(parsed)
        elif found["@type"] == "queries":
            found["queries"] += self.engine.pushes.running()
        return found

    def _command(self, parsed: ParsedStatement, statement: Command, planned: Executed | None, scope: Session) -> Entity:
        if planned is not None and planned.plan is not None:
            plan = replace(planned.plan, statement_text=parsed.text)
            planned = replace(planned, statement=parsed, plan=plan)
        known = dict(self.engine.session.catalog.sources)
        found = self.engine.command(parsed, planned, scope.config, scope.variables)
        done = found.executed
        if done is not None and done.plan is None:
            if isinstance(statement, CreateSource | CreateAs | CreateKafkaSource):
                return {
                    "@type": "warning_entity",
                    "statementText": parsed.text,
                    "message": done.message,
                    "warnings": [],
                }
        dropped = known.get(statement.name) if isinstance(statement, DropSource) else None
        identity = command_id(statement, dict(self.engine.session.catalog.sources), str(uuid4()))
        status = success(statement, done, dropped)
        self.engine.statuses[identity] = status
        if done is not None and done.plan is not None and done.plan.query_plan is not None:
            self.lines[done.plan.query_plan.query_id] = parsed.span.line
        return current_status(parsed.text, identity, status, found.sequence)

    def _ends_push(self, control: ControlQuery) -> str | None:
        """The id of the push query that TERMINATE names, None if it names none."""
        return self.engine.pushes.find(control.query_id) if control.verb == "TERMINATE" and control.query_id else None

    def _insert(self, parsed: ParsedStatement, planned: Executed | None) -> None:
        if planned is None or planned.insert is None:
            raise StatementError("nothing to insert", span=parsed.span)
        engine = self.engine
        record = insert_record(planned.insert, engine.asking.constants(), engine.session.serde(), engine.asking.now)
        written = self.produce([record]).result()
        if written.error is not None:
            raise written.error

    def produce(self, records: Sequence[Record]) -> Future[Written]:
        """Put records into their topic; the result comes when they are durable."""
        self.inserted += len(records)
        return self.engine.produce(records)

    def _asked(self, parsed: ParsedStatement, session: Session) -> Entity | None:
        """The entity of a statement that changes nothing; None for one that does."""
        try:
            text = without_values(parsed.text) if isinstance(parsed.statement, CreateConnector) else parsed.text
            return entity_of(parsed.statement, text, self._view(session))
        except FunctionError as error:
            if isinstance(parsed.statement, Describe):
                raise ApiError(BAD_REQUEST, error.message) from error
            raise

    def _view(self, session: Session) -> EngineView:
        return replace(self.engine.view(), session=session, host=self.host)
