"""The text of a query as ksqlDB rewrites it: columns qualified by their source, an alias for every expression, EMIT written out."""

from __future__ import annotations

from dataclasses import replace

from engine.catalog.catalog import Catalog
from engine.errors import StatementError
from engine.planner.analyze import Analysis, analyze
from engine.planner.scope import Scope
from engine.planner.typed import Types
from engine.sql.admin import Statement
from engine.sql.expressions import Expression
from engine.sql.statements import CreateAs, Emit, InsertInto, Query
from engine.sql.text import format_statement


def rewritten_text(statement: Statement, catalog: Catalog, types: Types) -> str:
    """Write a statement as ksqlDB keeps it in its plans and shows it in errors; one whose query is wrong, as it is."""
    if not isinstance(statement, CreateAs | InsertInto):
        return format_statement(statement)
    try:
        analysis = analyze(statement.query, catalog, types, is_persistent=True)
        return format_statement(replace(statement, query=_rewritten(analysis), properties=tuple(sorted(statement.properties))))
    except StatementError:
        return format_statement(statement)


def _rewritten(analysis: Analysis) -> Query:
    query, scope = analysis.query, analysis.scope
    return replace(
        query,
        select=analysis.select,
        joins=tuple(replace(join, criteria=scope.qualify(join.criteria)) for join in query.joins),
        where=_qualified(query.where, scope),
        group_by=analysis.group_by,
        partition_by=analysis.partition_by,
        having=_qualified(query.having, scope),
        emit=query.emit or Emit.CHANGES,
    )


def _qualified(expression: Expression | None, scope: Scope) -> Expression | None:
    return None if expression is None else scope.qualify(expression)
