"""Finds the plan that EXPLAIN shows: that of a query that runs, or of a statement."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import StatementError
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.planner.query import plan_transient
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.admin import Explain
from kestrel_sql.sql.nodes.statements import CreateAs, InsertInto, Query
from kestrel_sql.sql.parse.parser import ParsedStatement


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
    trial = replace(session, queries=dict(session.queries), partitions=dict(session.partitions))
    executed = trial.execute(ParsedStatement(target, text, span))
    trial.retract(executed.registered)
    if executed.plan is None or executed.plan.query_plan is None:
        raise StatementError("The statement to explain runs no query.", span=statement.span)
    return executed.plan.query_plan
