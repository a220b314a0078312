"""EXPLAIN: the plan of a statement or of a running query, step by step and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from engine.admin.answer import Answer, table
from engine.admin.view import View
from engine.errors import StatementError
from engine.plan.codec import encode_statement
from engine.plan.document import QueryPlan, StatementPlan
from engine.plan.schemas import result_schema
from engine.plan.step import Step
from engine.planner.query import plan_transient
from engine.planner.typed import Types
from engine.sql.admin import Explain
from engine.sql.parser import ParsedStatement
from engine.sql.statements import CreateAs, InsertInto, Query
from engine.sql.text import format_statement
from engine.types.sql_types import INTEGER


def explain(statement: Explain, view: View) -> Answer:
    """Answer EXPLAIN; rows are the steps from the last to the first, and the message is the plan as JSON.

    Raises:
        StatementError: there is no such query, or the statement runs none or is refused itself.
    """
    plan = _plan(statement, view)
    types = Types(view.session.functions, view.session.config)
    rows = [(depth, step.tag, step.query_context, str(result_schema(step, types.of))) for depth, step in _walk(plan.physical_plan, 0)]
    document = encode_statement(StatementPlan(statement_text="", query_plan=plan))
    answer = table((("Depth", INTEGER), "Step", "Context", "Schema"), rows)
    return replace(answer, message=json.dumps(document, indent=2, default=str))


def _plan(statement: Explain, view: View) -> QueryPlan:
    target = statement.target
    if isinstance(target, str):
        query = view.session.queries.get(target)
        if query is None:
            raise StatementError(
                f"Query with id:{target} does not exist, use SHOW QUERIES to view the full set of queries.", span=statement.span
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
        raise StatementError("The statement to explain has no place.")
    # A copy of the session plans it, so that nothing is created.
    trial = replace(session, queries=dict(session.queries), variables=dict(session.variables))
    done = trial.execute(ParsedStatement(target, text, span))
    if done.plan is None or done.plan.query_plan is None:
        raise StatementError("The statement to explain runs no query.", span=statement.span)
    return done.plan.query_plan


def _walk(step: Step, depth: int) -> Iterator[tuple[int, Step]]:
    yield depth, step
    for upstream in step.upstream:
        yield from _walk(upstream, depth + 1)
