"""Plan a case: carry out its statements or its stored plan, and write its input records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_config import crashed_config
from kestrel_qtt.drivers.case_records import input_records
from kestrel_qtt.drivers.driver import PlanningError
from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.drivers.job import crashed
from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_qtt.drivers.stored_plan import execute_stored
from kestrel_qtt.drivers.topics import NO_CACHE, register_topics
from kestrel_qtt.ksqldb.rewritten_query import rewritten_text
from kestrel_qtt.plans.store import CACHE_SIZES, RESTORED
from kestrel_sql.errors import EngineError, InputError, SqlSyntaxError
from kestrel_sql.formats.registry.memory import MemoryRegistry, SchemaRegistry
from kestrel_sql.plan.codec.plan_file import WRITTEN_BY, PlanFile, dump_plan, engine_version
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import Session, properties_config
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import InsertValues
from kestrel_sql.sql.parse.parser import ParsedStatement

BASE_PROPERTIES: Mapping[str, object] = {"ksql.service.id": "some.ksql.service.id", "auto.offset.reset": "earliest"}
"""The fixed configuration of a test engine (rule Q7.1)."""


def prepared(case: model.Case) -> CaseRun:
    """Plan a case as `prepare` does; a bug on the case is its outcome, for it must not end the run."""
    try:
        return prepare(case)
    except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
        return CaseRun(case, _session(case), outcome=crashed(error))


def prepare(case: model.Case, registry: SchemaRegistry | None = None) -> CaseRun:
    """Plan a case with the schemas of `registry`, by default an empty one in memory.

    Its outcome is that of a refused statement, or none yet.
    """
    run = CaseRun(case, _session(case, registry), outcome=crashed_config(case))
    if run.outcome is not None:
        return run
    run.outcome = _execute_text(run) if case.plan is None else _execute_plan(run, case.plan)
    if run.outcome is None:
        run.pending = list(run.session.queries.values())
        _write_inputs(run)
    return run


def _write_inputs(run: CaseRun) -> None:
    try:
        written = list(input_records(run.session, run.case.inputs, run.partitions))
    except InputError as error:
        run.outcome = model.Crashed(error.render())
        return
    run.inputs = [record for _, record in written]
    run.given = {(record.topic, record.partition, record.offset): given for given, record in written}


def plan_text(case: model.Case) -> str:
    """The plan file of a case's statements.

    Raises:
        PlanningError: a statement is refused, or planning it breaks.
    """
    session = _session(case)
    text = "\n".join(case.statements)
    try:
        register_topics(session, case)
        plans = (session.execute(parsed).plan for parsed in session.parse(text))
        statements = tuple(plan for plan in plans if plan is not None)
    except EngineError as error:
        raise PlanningError(error.render(text)) from error
    except Exception as error:
        raise PlanningError(f"planning failed: {crashed(error).message}") from error
    sizes = {name: session.config.get(name.removeprefix("ksql.streams.")) for name in CACHE_SIZES}
    configs = {name: session.config[name] for name in RESTORED} | {n: size for n, size in sizes.items() if size}
    return dump_plan(PlanFile(statements, {**configs, WRITTEN_BY: engine_version()}))


def _base_properties(case: model.Case) -> Mapping[str, object]:
    return {**BASE_PROPERTIES, **NO_CACHE} if case.tolerant else BASE_PROPERTIES


def _session(case: model.Case, registry: SchemaRegistry | None = None) -> Session:
    return Session(
        registry=registry or MemoryRegistry(),
        config=properties_config(dict(case.properties), _base_properties(case)),
        functions=functions_from(case.functions),
        variables=dict(case.variables),
    )


def _execute_text(run: CaseRun) -> model.Rejected | None:
    text = "\n".join(run.case.statements)
    try:
        register_topics(run.session, run.case)
        statements = run.session.parse(text)
    except SqlSyntaxError as error:
        return model.Rejected(
            message=str(error),
            unlogged_message=f"{error}\nStatement: {text}",
            error_code=error.code,
            place=_place(run.case, text, error),
        )
    for index, parsed in enumerate(statements):
        try:
            _execute(run, parsed)
        except EngineError as error:
            return model.Rejected(
                message=str(error),
                unlogged_message=_unlogged_message(run.session, parsed, error),
                statement_index=index,
                is_last=index == len(statements) - 1,
                error_code=error.code,
                place=_place(run.case, text, error),
            )
    return None


def _place(case: model.Case, text: str, error: EngineError) -> str:
    """Where an error is: in which line of the script, the text underlined, and what to try."""
    span = error.span
    script = [f"  at {case.script}:{span.line}:{span.column}"] if case.script is not None and span is not None else []
    return "\n".join([*script, *error.details(text)])


def _unlogged_message(session: Session, parsed: ParsedStatement, error: EngineError) -> str:
    """What ksqlDB tells its user and no log: the error with the statement, in each spelling that it may give it."""
    rewritten = rewritten_text(parsed.statement, session.catalog, Types(session.functions, session.config))
    spellings = dict.fromkeys((parsed.text, format_statement(parsed.statement), rewritten))
    return "\n".join(f"{error}\nStatement: {spelling}" for spelling in spellings)


def _execute_plan(run: CaseRun, plan: Path) -> model.Rejected | None:
    """Execute a stored plan, then the INSERT VALUES of the case: a plan holds queries, not records."""
    session, case = run.session, run.case
    try:
        register_topics(session, case)
        execute_stored(session, plan, dict(case.properties), _base_properties(case))
        if any(statement.lstrip().upper().startswith("INSERT") for statement in case.statements):
            for parsed in session.parse("\n".join(case.statements)):
                if isinstance(parsed.statement, InsertValues):
                    _execute(run, parsed)
    except EngineError as error:
        return model.Rejected(message=str(error), error_code=error.code)
    return None


def _execute(run: CaseRun, parsed: ParsedStatement) -> None:
    """Carry a statement out.

    An INSERT VALUES appends its record at the frozen clock of the test engine, which stands at 0.
    """
    session = run.session
    insert = session.execute(parsed).insert
    if not run.case.tolerant:
        run.partitions.declare(parsed.statement)
    if insert is None:
        return
    constants = Constants(session.functions, session.config)
    record = insert_record(insert, constants, session.serde(), lambda: 0)
    run.topics.setdefault(record.topic, []).append(run.partitions.stored(record))
