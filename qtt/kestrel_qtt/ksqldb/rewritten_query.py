"""Rewrite the text of a query as ksqlDB does: qualified columns, an alias for each expression, explicit EMIT."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.errors import StatementError
from kestrel_sql.planner.analysis.analyze import analyze
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.admin import Statement
from kestrel_sql.sql.nodes.statements import CreateAs, InsertInto


def rewritten_text(statement: Statement, catalog: Catalog, types: Types) -> str:
    """Return a statement as ksqlDB keeps it in plans and shows it in errors. A wrong query is returned unchanged."""
    if not isinstance(statement, CreateAs | InsertInto):
        return format_statement(statement)
    try:
        analysis = analyze(statement.query, catalog, types, is_persistent=True)
        return format_statement(
            replace(statement, query=analysis.written_out, properties=tuple(sorted(statement.properties)))
        )
    except StatementError:
        return format_statement(statement)
