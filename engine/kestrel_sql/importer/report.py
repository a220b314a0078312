"""Tries every statement of a ksqlDB command topic or of stored plans, and reports which ones run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import EngineError, StatementError, unreadable
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.importer.command_backup import CommandRecord, is_backup, read_backup
from kestrel_sql.importer.entries import Outcome, StatementReport, refused
from kestrel_sql.importer.scripts import ScriptTrial
from kestrel_sql.importer.stubs import MissingFunction
from kestrel_sql.plan.codec.plan_file import decode_statement, load_plan
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.session.registered_schemas import register_schemas
from kestrel_sql.session.session import Session, properties_config
from kestrel_sql.sql.nodes.admin import ControlQuery
from kestrel_sql.sql.script_files import SUFFIXES, script_files

PLAN_FILE = "plan.json"
_SWITCHES = ("ksql.cast.strings.preserve.nulls", "ksql.nested.error.set.null")


class Report(msgspec.Struct, frozen=True):
    """The outcomes of all statements, in the order in which they were issued, and the functions that scripts miss."""

    statements: tuple[StatementReport, ...]
    missing: tuple[MissingFunction, ...] = ()

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
        functions = [{"name": each.name, "signatures": each.signatures} for each in self.missing]
        document = {
            "summary": summary,
            "statements": [asdict(entry) for entry in self.statements],
            "missingFunctions": functions,
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in Outcome if self.count(outcome))
        told = f"of {len(self.statements)} statements: {counts}" if counts else "there are no statements"
        missing = [f"missing function {each.name}: {', '.join(each.signatures)}" for each in self.missing]
        return "\n".join([*map(_text_of, self.statements), *missing, told])


def import_report(paths: Sequence[Path], session: Session | None = None) -> Report:
    """Plan every statement at `paths`, with the settings, functions, schemas and variables of a new session.

    A path is a script, a folder of scripts, a folder of `plan.json` files, one such file, or a command topic backup; a
    text that is none of the others is a script.

    Each plan file is planned in a session of its own; all scripts share one, as do the commands of a backup. No query
    starts.

    Raises:
        StatementError: a path cannot be read, or a folder has neither plans nor scripts.
    """
    session = session or Session()
    scripts = ScriptTrial(replace(session, queries={}, partitions={}))
    entries: list[StatementReport] = []
    for path in paths:
        plans = sorted(path.rglob(PLAN_FILE)) if path.is_dir() else []
        if plans:
            entries += (
                entry for file in plans for entry in _of_plan_file(file, str(file.relative_to(path)), session.functions)
            )
            continue
        for file in script_files([path]):
            text = _read(file)
            if file.name == PLAN_FILE or _is_plan(text):
                entries += _of_plan_file(file, file.name, session.functions)
            elif file.suffix.lower() not in SUFFIXES and is_backup(text):
                entries += commands_report(read_backup(text), session.functions).statements
            else:
                entries += scripts.entries(text, file, file.name if path == file else str(file.relative_to(path)))
    return Report(tuple(map(scripts.with_topics, entries)), tuple(scripts.missing.values()))


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
        yield refused(origin, "", error)
        return
    session = Session(config=config, functions=functions)
    for statement in stored.statements:
        yield _try_plan(session, statement, origin, config)


def _of_commands(records: Iterable[CommandRecord], functions: Registry) -> Iterator[StatementReport]:
    session = Session(functions=functions)
    for record in records:
        if record.problem is not None:
            yield refused(record.key, record.statement, StatementError(record.problem))
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
        return refused(record.key, record.statement, error)


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
        return refused(origin, statement.statement_text, error, query=query.query_id if query else None)
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


def _text_of(entry: StatementReport) -> str:
    first = f"{entry.outcome.upper():15} {entry.origin}: {' '.join(entry.statement.split()) or '(no statement)'}"
    lines = [first]
    if entry.reason:
        lines.append(f"{'':16}{entry.code + ': ' if entry.code else ''}{entry.reason}")
    if entry.hint:
        lines.append(f"{'':16}hint: {entry.hint}")
    return "\n".join(lines)
