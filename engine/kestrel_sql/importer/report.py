"""Tries every statement of a ksqlDB command topic or of stored plans, and reports which ones run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.errors import EngineError, SqlSyntaxError, StatementError, attach_span, unreadable
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.importer.command_backup import CommandRecord, read_backup
from kestrel_sql.plan.codec.plan_file import decode_statement, load_plan
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.session.schema_lookup import register_schemas
from kestrel_sql.session.session import Session, properties_config
from kestrel_sql.sql.nodes.admin import (
    AssertSchema,
    AssertTopic,
    ControlQuery,
    Describe,
    Explain,
    ListObjects,
    PrintTopic,
)
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement, place_of, placed_text, statements_of

PLAN_FILE = "plan.json"
_ANSWERED = (AssertSchema, AssertTopic, ControlQuery, Describe, Explain, ListObjects, PrintTopic, Query)
_SWITCHES = ("ksql.cast.strings.preserve.nulls", "ksql.nested.error.set.null")


class Outcome(StrEnum):
    """Whether a statement runs."""

    RUNS = "runs"
    REFUSED = "refused"
    NOTHING = "nothing to run"


@dataclass(frozen=True, slots=True)
class StatementReport:
    """The outcome of one statement.

    Attributes:
        origin: the key of the command, or the file of the plan.
        statement: the SQL text.
        outcome: whether it runs.
        query: the id of the query that it starts or controls.
        code: the code of the error that refused it.
        reason: why it does not run.
        hint: what to try.
    """

    origin: str
    statement: str
    outcome: Outcome
    query: str | None = None
    code: str | None = None
    reason: str = ""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes of all statements, in the order in which they were issued."""

    statements: tuple[StatementReport, ...]

    @property
    def is_complete(self) -> bool:
        """Whether no statement was refused."""
        return all(entry.outcome is not Outcome.REFUSED for entry in self.statements)

    def count(self, outcome: Outcome) -> int:
        """The number of statements with this outcome."""
        return sum(entry.outcome is outcome for entry in self.statements)

    def to_json(self) -> str:
        """Return the report as JSON, which ends in a line feed."""
        summary = {outcome.name.lower(): self.count(outcome) for outcome in Outcome}
        document = {"summary": summary, "statements": [asdict(entry) for entry in self.statements]}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in Outcome if self.count(outcome))
        told = f"of {len(self.statements)} statements: {counts}" if counts else "there are no statements"
        return "\n".join([*map(_text_of, self.statements), told])


def import_report(path: Path, functions: Registry = FUNCTIONS) -> Report:
    """Plan every statement at `path`.

    A script, a folder of `plan.json` files, one such file, or a command topic backup.

    Each plan file is planned in a session of its own; the commands of a backup and the statements of a script share a
    session. No query starts.

    Raises:
        StatementError: `path` cannot be read or has no plans.
    """
    if path.is_dir():
        files = sorted(path.rglob(PLAN_FILE))
        if not files:
            raise StatementError(f"{path} has no {PLAN_FILE}", hint="name a folder with plans, or a backup file")
        return Report(
            tuple(entry for file in files for entry in _of_plan_file(file, str(file.relative_to(path)), functions))
        )
    text = _read(path)
    if path.suffix == ".sql":
        return Report(tuple(_of_script(text, path.name, functions)))
    if path.name == PLAN_FILE or _is_plan(text):
        return Report(tuple(_of_plan_file(path, path.name, functions)))
    return commands_report(read_backup(text), functions)


def commands_report(records: Iterable[CommandRecord], functions: Registry = FUNCTIONS) -> Report:
    """Plan commands in one session, in the order in which they were issued. No query starts."""
    return Report(tuple(_of_commands(records, functions)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"{path} cannot be read: {unreadable(error)}") from error


def _is_plan(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "plan" in document and "statement" not in document


def _of_plan_file(file: Path, origin: str, functions: Registry) -> Iterator[StatementReport]:
    try:
        stored = load_plan(_read(file))
        config = Config.of({name: stored.configs.get(name) or "false" for name in _SWITCHES})
    except EngineError as error:
        yield _refused(origin, "", error)
        return
    session = Session(config=config, functions=functions)
    for statement in stored.statements:
        yield _try_plan(session, statement, origin, config)


def _of_script(text: str, name: str, functions: Registry) -> Iterator[StatementReport]:
    """Try the statements of a script one by one."""
    session = Session(functions=functions)
    for piece in statements_of(text):
        placed = placed_text(piece.text, place_of(piece))
        try:
            for parsed in session.parse(placed):
                yield _try_written(session, parsed, name)
        except SqlSyntaxError as error:
            yield _refused_at(name, piece.text, error)


def _try_written(session: Session, parsed: ParsedStatement, name: str) -> StatementReport:
    origin = f"{name}:{parsed.span.line}"
    if isinstance(parsed.statement, _ANSWERED):
        return StatementReport(origin, parsed.text, Outcome.NOTHING, reason="it answers a user and starts nothing")
    try:
        with attach_span(parsed.span):
            plan = session.execute(parsed).plan
            query = None if plan is None else plan.query_plan
            if query is not None:
                run = QueryRun(plan=query, settings=session.config, serde=session.serde())
                build_graph([run], session.functions)
    except EngineError as error:
        return _refused_at(name, parsed.text, error)
    return StatementReport(origin, parsed.text, Outcome.RUNS, query=None if query is None else query.query_id)


def _refused_at(name: str, text: str, error: EngineError) -> StatementReport:
    at = error.span
    return _refused(f"{name}:{at.line}:{at.column}" if at else name, text, error)


def _of_commands(records: Iterable[CommandRecord], functions: Registry) -> Iterator[StatementReport]:
    session = Session(functions=functions)
    for record in records:
        if record.problem is not None:
            yield _refused(record.key, record.statement, StatementError(record.problem))
        elif record.ends_service:
            session.queries.clear()
            reason = "it ends all queries and the service"
            yield StatementReport(record.key, record.statement, Outcome.NOTHING, reason=reason)
        else:
            yield _try_command(session, record)


def _try_command(session: Session, record: CommandRecord) -> StatementReport:
    try:
        config = properties_config({**record.configured, **record.properties})
        if record.plan is not None:
            return _try_plan(session, decode_statement(record.plan), record.key, config)
        session.config = config
        return _try_statement(session, record)
    except EngineError as error:
        return _refused(record.key, record.statement, error)


def _try_plan(session: Session, statement: StatementPlan, origin: str, config: Config) -> StatementReport:
    query = statement.query_plan
    before = (session.catalog, dict(session.queries))
    try:
        register_schemas(session.registry, statement)
        session.execute_plan(statement, config)
        if query is not None:
            build_graph([QueryRun(plan=query, settings=config, serde=session.serde())], session.functions)
    except EngineError as error:
        session.catalog, session.queries = before
        return _refused(origin, statement.statement_text, error, query=query.query_id if query else None)
    return StatementReport(origin, statement.statement_text, Outcome.RUNS, query=query.query_id if query else None)


def _try_statement(session: Session, record: CommandRecord) -> StatementReport:
    """Execute a command that has no plan; ksqlDB stores statements that change no source without one."""
    query = None
    for parsed in session.parse(record.statement):
        if isinstance(parsed.statement, ControlQuery):
            return _control(session, record, parsed.statement)
        plan = session.execute(parsed).plan
        if plan is not None and plan.query_plan is not None:
            query = plan.query_plan.query_id
            build_graph(
                [QueryRun(plan=plan.query_plan, settings=session.config, serde=session.serde())], session.functions
            )
    return StatementReport(record.key, record.statement, Outcome.RUNS, query=query)


def _control(session: Session, record: CommandRecord, statement: ControlQuery) -> StatementReport:
    """Execute PAUSE, RESUME or TERMINATE; only TERMINATE changes the session."""
    running = (
        list(session.queries)
        if statement.query_id is None
        else [name for name in session.queries if name == statement.query_id]
    )
    if statement.verb.upper() == "TERMINATE":
        for name in running:
            del session.queries[name]
    missing = "no query is running" if statement.query_id is None else f"query {statement.query_id} does not exist"
    reason = f"{statement.verb.upper()} {', '.join(running)}" if running else missing
    return StatementReport(record.key, record.statement, Outcome.NOTHING, query=statement.query_id, reason=reason)


def _refused(origin: str, statement: str, error: EngineError, query: str | None = None) -> StatementReport:
    return StatementReport(
        origin, statement, Outcome.REFUSED, query=query, code=error.code, reason=error.message, hint=error.hint
    )


def _text_of(entry: StatementReport) -> str:
    first = f"{entry.outcome.upper():15} {entry.origin}: {' '.join(entry.statement.split()) or '(no statement)'}"
    lines = [first]
    if entry.reason:
        lines.append(f"{'':16}{entry.code + ': ' if entry.code else ''}{entry.reason}")
    if entry.hint:
        lines.append(f"{'':16}hint: {entry.hint}")
    return "\n".join(lines)
