"""Answers EXPLAIN with the plan of a statement or of a running query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kestrel_sql.admin.answer import Answer, moment, table
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import StatementError
from kestrel_sql.plan.codec.json_text import write_json
from kestrel_sql.plan.codec.plan_file import encode_statement
from kestrel_sql.plan.document import QueryPlan, StatementPlan
from kestrel_sql.plan.schemas import result_schema
from kestrel_sql.plan.step import Step
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.query import plan_transient
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.admin import Explain
from kestrel_sql.sql.nodes.statements import CreateAs, InsertInto, Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.types.sql_types import INTEGER


def explain(statement: Explain, view: EngineView) -> Answer:
    """Answer EXPLAIN: the rows are the steps from the sink to the sources, the message is the plan as JSON.

    Raises:
        StatementError: the query does not exist, or the statement is invalid or has no query.
    """
    plan = explained_plan(statement, view)
    types = Types(view.session.functions, view.session.config)
    rows = [
        (depth, step.tag, step.query_context, str(result_schema(step, types.of)))
        for depth, step in _walk(plan.physical_plan, 0)
    ]
    document = encode_statement(StatementPlan(statement_text="", query_plan=plan))
    answer = table((("Depth", INTEGER), "Step", "Context", "Schema"), rows)
    return replace(answer, message="\n".join([*_failures(statement, view), write_json(document).rstrip()]))


def _failures(statement: Explain, view: EngineView) -> Iterator[str]:
    failure = view.failed.get(statement.target) if isinstance(statement.target, str) else None
    if failure is not None:
        yield f"{statement.target} has failed at {moment(failure.time)}: {failure.message}"


def explained_plan(statement: Explain, view: EngineView) -> QueryPlan:
    """The plan that EXPLAIN shows.

    Raises:
        StatementError: the query does not exist, or the statement is invalid or has no query.
    """
    target = statement.target
    if isinstance(target, str):
        query = view.session.queries.get(target)
        if query is None:
            raise StatementError(
                f"Query with id:{target} does not exist, use SHOW QUERIES to view the full set of queries.",
                span=statement.span,
            )
        return query.plan
    session = view.session
    if isinstance(target, Query):
        return plan_transient(target, session.catalog, session.config, "explained", session.functions)
    if not isinstance(target, CreateAs | InsertInto):
        hint = "EXPLAIN takes a SELECT, CREATE … AS or INSERT INTO … SELECT"
        raise StatementError("The statement to explain runs no query.", span=statement.span, hint=hint)
    text = format_statement(target)
    span = target.span or statement.span
    if span is None:
        raise StatementError("The statement to explain has no position in the text.")
    # A copy of the session executes the statement, so EXPLAIN creates nothing.
    trial = replace(session, queries=dict(session.queries), variables=dict(session.variables))
    executed = trial.execute(ParsedStatement(target, text, span))
    if executed.plan is None or executed.plan.query_plan is None:
        raise StatementError("The statement to explain runs no query.", span=statement.span)
    return executed.plan.query_plan


def _walk(step: Step, depth: int) -> Iterator[tuple[int, Step]]:
    yield depth, step
    for upstream in step.upstream:
        yield from _walk(upstream, depth + 1)
