"""Show a plan as a tree: one line per step, its fields below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kestrel_sql.plan.codec.plan_file import PlanFile, encode_statement
from kestrel_sql.plan.document import StatementPlan

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


def _text(value: Any) -> str:
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
