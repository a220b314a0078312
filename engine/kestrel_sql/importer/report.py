"""What of a ksqlDB installation runs here: its command topic or its plans, answered statement by statement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.importer.command_backup import CommandRecord, read_backup
from kestrel_sql.plan.codec.plan_file import decode_statement, load_plan
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.session.schema_lookup import register_schemas
from kestrel_sql.session.session import Session, properties_config
from kestrel_sql.spark.pipeline.pipeline import QueryRun, build_pipeline
from kestrel_sql.sql.nodes.admin import ControlQuery

PLAN_FILE = "plan.json"
_SWITCHES = ("ksql.cast.strings.preserve.nulls", "ksql.nested.error.set.null")


class Verdict(StrEnum):
    """Whether a statement runs."""

    RUNS = "runs"
    REFUSED = "refused"
    NOTHING = "nothing to run"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be said of one statement; `where` is the key of a command or the file of a plan, `query` the query that it starts."""

    where: str
    statement: str
    verdict: Verdict
    query: str | None = None
    code: str | None = None
    reason: str = ""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The answers for all statements, in the order in which they were issued."""

    answers: tuple[Answer, ...]

    @property
    def is_complete(self) -> bool:
        """Say whether nothing was refused."""
        return all(answer.verdict is not Verdict.REFUSED for answer in self.answers)

    def count(self, verdict: Verdict) -> int:
        """How many statements got `verdict`."""
        return sum(answer.verdict is verdict for answer in self.answers)

    def to_json(self) -> str:
        """Write the report as JSON, ending in a line feed."""
        summary = {verdict.name.lower(): self.count(verdict) for verdict in Verdict}
        document = {"summary": summary, "statements": [asdict(answer) for answer in self.answers]}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in Verdict if self.count(verdict))
        return "\n".join([*map(_answer_text, self.answers), counts or "there are no statements"])


def import_report(path: Path, functions: Registry = FUNCTIONS) -> Report:
    """Try every statement of `path`: a folder of `plan.json` files, one such file, or a backup of a command topic.

    Each plan file is an installation of its own; the commands of a backup build on each other. Nothing is started.

    Raises:
        StatementError: there is nothing to import at `path`.
    """
    if path.is_dir():
        files = sorted(path.rglob(PLAN_FILE))
        if not files:
            raise StatementError(f"there is no {PLAN_FILE} below {path}")
        return Report(
            tuple(answer for file in files for answer in _of_plan_file(file, str(file.relative_to(path)), functions))
        )
    text = _read(path)
    if path.name == PLAN_FILE or _is_plan(text):
        return Report(tuple(_of_plan_file(path, path.name, functions)))
    return Report(tuple(_of_commands(read_backup(text), functions)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"{path} cannot be read: {error}") from error


def _is_plan(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "plan" in document and "statement" not in document


def _of_plan_file(file: Path, where: str, functions: Registry) -> Iterator[Answer]:
    try:
        stored = load_plan(_read(file))
        config = Config.of({name: stored.configs.get(name) or "false" for name in _SWITCHES})
    except EngineError as error:
        yield _refused(where, "", error)
        return
    session = Session(config=config, functions=functions)
    for statement in stored.statements:
        yield _try_plan(session, statement, where, config)


def _of_commands(records: Iterator[CommandRecord], functions: Registry) -> Iterator[Answer]:
    session = Session(functions=functions)
    for record in records:
        if record.problem is not None:
            yield _refused(record.key, record.statement, StatementError(record.problem))
        else:
            yield _try_command(session, record)


def _try_command(session: Session, record: CommandRecord) -> Answer:
    try:
        config = properties_config({**record.configured, **record.properties})
        if record.plan is not None:
            return _try_plan(session, decode_statement(record.plan), record.key, config)
        session.config = config
        return _try_statement(session, record)
    except EngineError as error:
        return _refused(record.key, record.statement, error)


def _try_plan(session: Session, statement: StatementPlan, where: str, config: Config) -> Answer:
    command, query = statement.ddl_command, statement.query_plan
    before = (session.catalog, dict(session.queries))
    try:
        if isinstance(command, CreateStreamV1 | CreateTableV1):
            register_schemas(session.registry, command, sink=query is not None and query.sink is not None)
        session.execute_plan(statement, config)
        if query is not None:
            build_pipeline([QueryRun(plan=query, settings=config, serde=session.serde())], session.functions)
    except EngineError as error:
        session.catalog, session.queries = before
        return _refused(where, statement.statement_text, error, query=query.query_id if query else None)
    return Answer(where, statement.statement_text, Verdict.RUNS, query=query.query_id if query else None)


def _try_statement(session: Session, record: CommandRecord) -> Answer:
    """Carry out a command that was stored without a plan, as ksqlDB does with statements that change no source."""
    query = None
    for parsed in session.parse(record.statement):
        if isinstance(parsed.statement, ControlQuery):
            return _steer(session, record, parsed.statement)
        plan = session.execute(parsed).plan
        if plan is not None and plan.query_plan is not None:
            query = plan.query_plan.query_id
            build_pipeline(
                [QueryRun(plan=plan.query_plan, settings=session.config, serde=session.serde())], session.functions
            )
    return Answer(record.key, record.statement, Verdict.RUNS, query=query)


def _steer(session: Session, record: CommandRecord, statement: ControlQuery) -> Answer:
    known = (
        list(session.queries)
        if statement.query_id is None
        else [name for name in session.queries if name == statement.query_id]
    )
    if statement.verb.upper() == "TERMINATE":
        for name in known:
            del session.queries[name]
    named = "no query is" if statement.query_id is None else f"the query {statement.query_id} is not"
    reason = f"{statement.verb.upper()} {', '.join(known)}" if known else f"{named} running here"
    return Answer(record.key, record.statement, Verdict.NOTHING, query=statement.query_id, reason=reason)


def _refused(where: str, statement: str, error: EngineError, query: str | None = None) -> Answer:
    return Answer(
        where, statement, Verdict.REFUSED, query=query, code=error.code, reason=error.message, hint=error.hint
    )


def _answer_text(answer: Answer) -> str:
    first = f"{answer.verdict.upper():15} {answer.where}: {' '.join(answer.statement.split()) or '(no statement)'}"
    lines = [first]
    if answer.reason:
        lines.append(f"{'':16}{answer.code + ': ' if answer.code else ''}{answer.reason}")
    if answer.hint:
        lines.append(f"{'':16}hint: {answer.hint}")
    return "\n".join(lines)
