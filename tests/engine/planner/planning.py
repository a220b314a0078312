"""Plans statements for the tests of the query planner, and prints plans as short indented text."""

from __future__ import annotations

from enum import Enum

from msgspec.structs import fields

from kestrel_sql.catalog.apply import source_of
from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.plan.step import Formats, SelectItem, Step
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.ddl.statements import plan_create_source
from kestrel_sql.planner.query import plan_create_as, plan_insert_into, plan_transient
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import Node
from kestrel_sql.sql.nodes.statements import CreateAs, CreateSource, InsertInto, Query
from kestrel_sql.sql.parse.parser import parse_script

HIDDEN = frozenset(
    {"query_context", "topic_name", "source_schema", "pseudo_column_version", "timestamp_column", "window_info"}
)


def plan(script: str, config: Config | None = None) -> StatementPlan:
    """Run the CREATE statements of a script and plan its last statement."""
    used = config or Config()
    catalog = Catalog()
    result = StatementPlan(statement_text="")
    for parsed in parse_script(script):
        match parsed.statement:
            case CreateSource() as create:
                created = plan_create_source(create, catalog, used, MemoryRegistry())
                assert created is not None
                catalog = catalog.with_source(source_of(created))
            case CreateAs() as create_as:
                result = plan_create_as(create_as, catalog, used, "Q", parsed.text, FUNCTIONS, MemoryRegistry())
                assert isinstance(result.ddl_command, CreateStreamV1 | CreateTableV1)
                catalog = catalog.with_source(source_of(result.ddl_command, created_by="Q"))
            case InsertInto() as insert:
                result = plan_insert_into(insert, catalog, used, "Q", parsed.text)
            case Query() as query:
                result = StatementPlan(statement_text=parsed.text, query_plan=plan_transient(query, catalog, used, "Q"))
            case other:
                raise AssertionError(other)
    return result


def tree(planned: StatementPlan) -> list[str]:
    """Return the steps of a plan, one line each; upstream steps are indented below."""
    assert planned.query_plan is not None
    return _tree(planned.query_plan.physical_plan, 0)


def command(planned: StatementPlan) -> CreateStreamV1 | CreateTableV1:
    """Return the DDL command of a statement."""
    assert isinstance(planned.ddl_command, CreateStreamV1 | CreateTableV1)
    return planned.ddl_command


def schema(planned: StatementPlan) -> str:
    """Return the schema that a statement registers."""
    return str(command(planned).schema)


def _tree(step: Step, depth: int) -> list[str]:
    shown = [
        f"{f.name}={_text(value)}"
        for f in fields(step)
        if f.name not in HIDDEN
        and (value := getattr(step, f.name)) is not None
        and not isinstance(value, Step | Formats)
    ]
    line = "  " * depth + " ".join([f"{step.tag}[{step.query_context}]", *shown])
    return [line, *(below for source in step.upstream for below in _tree(source, depth + 1))]


def _text(value: object) -> str:
    match value:
        case tuple():
            return f"({', '.join(map(_text, value))})"
        case SelectItem(expression, alias):
            return f"{format_expression(expression)} AS {alias}"
        case Enum():
            return value.name
        case Node():
            return format_expression(value)  # type: ignore[arg-type]
        case _:
            return str(value)
