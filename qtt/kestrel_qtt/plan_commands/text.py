"""Show plans as trees with the stages in which they run, and the differences of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kestrel_qtt.cases.discovery import PLAN_FILE
from kestrel_qtt.cases.model import Json
from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.drivers.stored_plan import execute_plan_file
from kestrel_qtt.plan_commands.format_coverage import facts_of
from kestrel_qtt.plans.store import RESTORED, PlanStoreError, read_plan, written_by
from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.explain import stages_text
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import EngineError
from kestrel_sql.plan.codec.plan_file import PlanFile, dump_plan, encode_statement, load_plan
from kestrel_sql.plan.diff import diff_plans
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.session.session import Session


def explain_text(text: str, name: str, functions: Sequence[str | Path] = ()) -> str:
    """Return the statements of a plan.json as trees, each query followed by the stages in which it runs.

    Errors name `name`. `functions` are the sources of user functions that the plan calls.

    Raises:
        PlanStoreError: the text is not a plan, or the plan cannot be run.
    """
    plan = _load(text, name)
    session = Session(functions=functions_from(functions))
    parts = [explain_plan(plan)]
    try:
        execute_plan_file(session, plan, {}, {})
        for query in session.queries.values():
            run = QueryRun(plan=query.plan, settings=query.config, serde=session.serde())
            parts.append(stages_text(build_graph([run], session.functions)))
    except EngineError as error:
        raise PlanStoreError(f"{name}: {error.render()}") from error
    return "\n\n".join(parts)


def difference_text(left: Path, right: Path) -> str:
    """Return the differences of two plan.json files, one per line; empty if they mean the same.

    Raises:
        PlanStoreError: a file cannot be read, or is not a plan.
    """
    old, new = (_load(read_plan(file), str(file)) for file in (left, right))
    return "\n".join(map(str, diff_plans(old, new, RESTORED)))


def differences_between(old: str, new: str, name: str) -> str:
    """Return the differences of two plan texts, one per line; empty if they mean the same.

    Errors call the first text `name`.

    Raises:
        PlanStoreError: the texts differ, and one of them is not a plan.
    """
    if old == new:
        return ""
    return "\n".join(map(str, diff_plans(_load(old, name), _load(new, "today's plan"), RESTORED)))


def plan_facts(document: Json) -> frozenset[str]:
    """Return the facts of the format that a parsed plan.json uses."""
    return facts_of(document)


def plan_meaning(text: str, name: str) -> object:
    """Return a value that is equal for plans that behave alike: statements without their texts, and restored settings.

    Raises:
        PlanStoreError: the text, called `name`, is not a plan.
    """
    plan = _load(text, name)
    switches = tuple(plan.configs.get(switch) or "false" for switch in RESTORED)
    return tuple((statement.ddl_command, statement.query_plan) for statement in plan.statements), switches


def survives_codec(text: str, name: str) -> bool:
    """Say whether today's codec writes and reads a plan unchanged; raise PlanStoreError."""
    plan = _load(text, name)
    written = dump_plan(plan)
    return written == text or _load(written, name) == plan


def check_plan(text: str, name: str) -> None:
    """Check that a text is a plan.json; else raise PlanStoreError, which names `name`."""
    _load(text, name)


def _load(text: str, name: str) -> PlanFile:
    try:
        file = Path(name)
        return load_plan(text, written_by(file if file.name == PLAN_FILE else file / PLAN_FILE))
    except EngineError as error:
        raise PlanStoreError(f"{name}: {error.render()}") from error


_SOURCES = ("source", "leftSource", "rightSource")
_APART = frozenset({"@type", "properties", *_SOURCES})


def explain_plan(plan: PlanFile) -> str:
    """Show all statements of a plan in order, without empty fields."""
    return "\n\n".join(
        f"{number}. {explain_statement(statement)}" for number, statement in enumerate(plan.statements, start=1)
    )


def explain_statement(statement: StatementPlan) -> str:
    """Show one statement: its text, its change of the catalog, and its query as a tree from sink to sources.

    Raises:
        PlanError: steps or expressions that are nested too deeply.
    """
    document = encode_statement(statement)
    lines = [" ".join(statement.statement_text.split()) or "(no statement text)"]
    command, query = document["ddlCommand"], document["queryPlan"]
    if command is not None:
        lines += [f"   {command['@type']}", *(f"     {line}" for line in _fields(command))]
    if query is not None:
        sink = f" into {query['sink']}" if query["sink"] else ""
        lines.append(f"   query {query['queryId']}: from {', '.join(query['sources'])}{sink}")
        lines += [f"     {line}" for line in _tree(query["physicalPlan"], "", "")]
    return "\n".join(lines)


def _tree(step: Mapping[str, Any], first: str, rest: str) -> Iterator[str]:
    """Yield the lines of a step, with `first` before its name and `rest` before the lines below."""
    sources = [(name, step[name]) for name in _SOURCES if name in step]
    yield f"{first}{step['@type']} [{step['properties']['queryContext']}]"
    for line in _fields(step):
        yield f"{rest}{'│' if sources else ' '}    {line}"
    for name, source in sources:
        side = "" if name == "source" else f"{name.removesuffix('Source')}: "
        is_last = name == sources[-1][0]
        yield from _tree(source, f"{rest}{'└─ ' if is_last else '├─ '}{side}", f"{rest}{'   ' if is_last else '│  '}")


def _fields(document: Mapping[str, Any]) -> Iterator[str]:
    for name, value in document.items():
        if name not in _APART and value not in (None, False, [], {}):
            yield f"{name}: {_text(value)}"


def _text(value: object) -> str:
    match value:
        case {"format": str(name), **rest}:
            return f"{name}{_text(rest)}" if any(rest.values()) else name
        case dict():
            return (
                "{"
                + ", ".join(
                    f"{name}: {_text(member)}" for name, member in value.items() if member not in (None, [], {})
                )
                + "}"
            )
        case list():
            return ", ".join(map(_text, value))
        case _:
            return str(value)
