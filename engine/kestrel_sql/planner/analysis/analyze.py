"""Analyses a query: resolves columns to sources, names the select items and checks the clauses."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.errors import StatementError
from kestrel_sql.plan.column_names import AliasGenerator
from kestrel_sql.planner.analysis.join_criteria import Joined, analyze_joins
from kestrel_sql.planner.analysis.join_names import prefixed
from kestrel_sql.planner.analysis.query_shape import check_lambdas, check_shape
from kestrel_sql.planner.analysis.scope import BOUND_NAMES, Scope, scope_of_query
from kestrel_sql.planner.ddl.columns import resolve_type
from kestrel_sql.planner.expressions.timestamp_literals import rewrite_timestamps
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.nodes.expressions import Cast, ColumnRef, Dereference, Expression
from kestrel_sql.sql.nodes.statements import Emit, Query, SelectAll, SelectExpression, SelectItem, SelectStructAll
from kestrel_sql.sql.nodes.walk import rewrite, rewrite_within
from kestrel_sql.types.schema import SYSTEM_NAMES
from kestrel_sql.types.sql_types import Struct

NamedItem = SelectExpression | SelectAll


class Analysis(msgspec.Struct, frozen=True):
    """A checked query; column references are qualified with the alias of their source.

    Every item of `select` except stars has an alias. `is_persistent` is False for a push query.
    """

    query: Query
    scope: Scope
    joins: tuple[Joined, ...]
    select: tuple[NamedItem, ...]
    where: Expression | None
    partition_by: tuple[Expression, ...] | None
    group_by: tuple[Expression, ...] | None
    having: Expression | None
    aggregates: bool
    is_persistent: bool

    def selects(self, expression: Expression) -> bool:
        """Whether the projection contains this expression, as an item or through a star."""
        for item in self.select:
            if isinstance(item, SelectAll):
                if item.qualifier is None or (
                    isinstance(expression, ColumnRef) and item.qualifier == expression.qualifier
                ):
                    return True
            elif item.expression == expression:
                return True
        return False

    @property
    def written_out(self) -> Query:
        """The query as ksqlDB keeps it: with qualified columns, an alias for each item but `*`, and EMIT."""
        query, qualify = self.query, self.scope.qualify
        return replace(
            query,
            select=self.select,
            joins=tuple(replace(join, criteria=qualify(join.criteria)) for join in query.joins),
            where=None if query.where is None else qualify(query.where),
            group_by=self.group_by,
            partition_by=self.partition_by,
            having=None if query.having is None else qualify(query.having),
            emit=query.emit or Emit.CHANGES,
        )


def analyze(query: Query, catalog: Catalog, types: Types, *, is_persistent: bool) -> Analysis:
    """Resolve the names of a query and check its clauses.

    Raises:
        StatementError: the query breaks one of rules L9.
    """
    query = _with_custom_types(query, catalog)
    scope = scope_of_query(query, catalog)
    select = _name_items(query, scope, types)
    joins = analyze_joins(query, scope)
    analysis = Analysis(
        query=query,
        scope=scope,
        joins=joins,
        select=select,
        where=_clause(query.where, scope),
        partition_by=_clauses(query.partition_by, scope),
        group_by=_clauses(query.group_by, scope),
        having=_clause(query.having, scope),
        aggregates=query.group_by is not None or _has_aggregates(select, types),
        is_persistent=is_persistent,
    )
    _check_aliases(analysis)
    _check_columns(analysis)
    for expression in (
        *_expressions(analysis),
        analysis.where,
        *(analysis.group_by or ()),
        *(analysis.partition_by or ()),
        analysis.having,
    ):
        if expression is not None:
            types.check_names(expression)
            check_lambdas(expression, scope, types)
    check_shape(analysis.query, analysis.scope, _expressions(analysis), types, is_persistent=is_persistent)
    where = None if analysis.where is None else rewrite_timestamps(analysis.where)
    having = None if analysis.having is None else rewrite_timestamps(analysis.having)
    return replace(analysis, where=where, having=having)


def _with_custom_types(query: Query, catalog: Catalog) -> Query:
    """Resolve the custom types in casts, because plans have no type names."""

    def resolved(node: Expression) -> Expression | None:
        if not isinstance(node, Cast):
            return None
        return replace(node, operand=rewrite(node.operand, resolved), type=resolve_type(node.type, catalog.types))

    return rewrite_within(query, resolved)


def _clause(expression: Expression | None, scope: Scope) -> Expression | None:
    return None if expression is None else scope.qualify(expression)


def _clauses(expressions: tuple[Expression, ...] | None, scope: Scope) -> tuple[Expression, ...] | None:
    return None if expressions is None else tuple(scope.qualify(e) for e in expressions)


def _has_aggregates(select: tuple[NamedItem, ...], types: Types) -> bool:
    return any(isinstance(item, SelectExpression) and types.has(item.expression, types.is_aggregate) for item in select)


def _expressions(analysis: Analysis) -> tuple[Expression, ...]:
    return tuple(item.expression for item in analysis.select if isinstance(item, SelectExpression))


def _name_items(query: Query, scope: Scope, types: Types) -> tuple[NamedItem, ...]:
    names = AliasGenerator(column.name for source in scope.sources for column in source.source.schema.columns)
    return tuple(named for item in query.select for named in _name_item(item, scope, names, types))


def _name_item(item: SelectItem, scope: Scope, names: AliasGenerator, types: Types) -> Iterator[NamedItem]:
    match item:
        case SelectAll(qualifier):
            if qualifier is not None:
                scope.source(qualifier, item.span)
            yield item
        case SelectStructAll(expression):
            yield from _struct_items(scope.qualify(expression), scope, types)
        case SelectExpression(expression, alias):
            qualified = scope.qualify(expression)
            yield SelectExpression(qualified, alias or _alias(qualified, scope, names), span=item.span)


def _struct_items(base: Expression, scope: Scope, types: Types) -> Iterator[SelectExpression]:
    scope.check(base, "SELECT")
    sql_type = types.of(scope.as_written(base), scope.columns_as_written())
    if not isinstance(sql_type, Struct):
        raise StatementError(f"'->*' needs a STRUCT, but the expression before it is {sql_type}.", span=base.span)
    for field in sql_type.fields:
        yield SelectExpression(Dereference(base, field.name), field.name)


def _alias(expression: Expression, scope: Scope, names: AliasGenerator) -> str:
    match expression:
        case ColumnRef(name, None):
            return name
        case ColumnRef(name, str(qualifier)):
            return prefixed(qualifier, name) if scope.is_join and scope.clashes(name) else name
        case _:
            return names.for_expression(expression)


def _check_aliases(analysis: Analysis) -> None:
    if not analysis.is_persistent:
        return
    for item in analysis.select:
        if not isinstance(item, SelectExpression) or (item.alias or "").upper() not in SYSTEM_NAMES:
            continue
        alias = (item.alias or "").upper()
        if isinstance(item.expression, ColumnRef) and item.expression.name == alias:
            if analysis.query.window is not None and alias in BOUND_NAMES:
                continue
            raise StatementError(
                f"Reserved column name in select: `{alias}`. Please remove or alias the column.", span=item.span
            )
        raise StatementError(
            f"`{alias}` is a reserved column name. You cannot use it as an alias for a column.", span=item.span
        )


def _check_columns(analysis: Analysis) -> None:
    scope = analysis.scope
    bounds = BOUND_NAMES if analysis.query.window is not None and not scope.is_join else frozenset[str]()
    keys = frozenset({scope.synthetic_key()}) if scope.is_join else frozenset[str]()
    if analysis.where is not None:
        scope.check(analysis.where, "WHERE", extra=bounds)
    for expression in analysis.partition_by or ():
        scope.check(expression, "PARTITION BY")
    for expression in analysis.group_by or ():
        scope.check(expression, "GROUP BY", extra=bounds)
    for expression in _expressions(analysis):
        scope.check(expression, "SELECT", extra=bounds | keys)
    if analysis.having is not None and analysis.aggregates:
        scope.check(analysis.having, "HAVING", extra=bounds | keys)
