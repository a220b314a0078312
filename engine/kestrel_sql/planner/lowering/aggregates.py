"""Builds the steps of aggregating queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import FormatError, StatementError
from kestrel_sql.formats.table import format_of
from kestrel_sql.functions.declaration import Aggregate
from kestrel_sql.plan.step import SelectItem, Step
from kestrel_sql.plan.steps.aggregates import StreamAggregateV1, StreamWindowedAggregateV1, TableAggregateV1
from kestrel_sql.plan.steps.streams import StreamGroupByKeyV1, StreamGroupByV2
from kestrel_sql.plan.steps.tables import TableGroupByV2
from kestrel_sql.planner.analysis.aggregate_rules import check_aggregates
from kestrel_sql.planner.analysis.analyze import Analysis
from kestrel_sql.planner.analysis.join_names import and_list
from kestrel_sql.planner.analysis.key_rules import missing_key
from kestrel_sql.planner.analysis.scope import BOUND_NAMES, Scope
from kestrel_sql.planner.ddl.columns import check_key_types
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.lowering.projection import COPY_KEY_HINT, check_distinct, check_items, expand, select
from kestrel_sql.planner.lowering.relation import Relation
from kestrel_sql.planner.lowering.single_source import check_predicate, filtered
from kestrel_sql.planner.lowering.windows import window_expression, window_info
from kestrel_sql.planner.properties.serdes import internal_formats
from kestrel_sql.sql.nodes.expressions import BooleanLiteral, ColumnRef, Expression, FunctionCall
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.sql.nodes.walk import calls, column_refs, rewrite
from kestrel_sql.types.schema import ROWTIME, WINDOW_BOUNDS, Column
from kestrel_sql.types.sql_types import quote


class Grouping(msgspec.Struct, frozen=True):
    """The expressions of an aggregating query, with unqualified column names."""

    items: tuple[SelectItem, ...]
    group_by: tuple[Expression, ...]
    having: Expression | None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions: SELECT, GROUP BY, HAVING."""
        having = () if self.having is None else (self.having,)
        return (*(item.expression for item in self.items), *self.group_by, *having)


def aggregated(analysis: Analysis, relation: Relation, sink: str | None, types: Types) -> Relation:
    """Group, aggregate, filter by HAVING and compute the projection; `sink` is None for a push query.

    Raises:
        StatementError: the query breaks a rule on aggregating queries.
    """
    grouping = _grouping(analysis, relation, types)
    check_aggregates(analysis, grouping.items, grouping.group_by, grouping.having, types)
    names = _key_names(grouping, analysis.scope, sink)
    _check_types(analysis, relation, types)
    # In a query without WINDOW clause over windowed rows, the bounds are ordinary columns.
    bounds = BOUND_NAMES if analysis.query.window is not None else frozenset[str]()
    where = () if analysis.where is None else (analysis.scope.plain(analysis.where),)
    required = _required((*grouping.expressions, *where), bounds)
    arguments = _Arguments(required)
    for expression in grouping.expressions:
        for call in calls(expression, types.is_aggregate):
            for argument in call.arguments:
                arguments.add(argument)
    prepared = select(relation, relation.key_names, arguments.items(), "Aggregate/Prepare", types)
    prepared = replace(prepared, window=relation.window)
    results = _Results(arguments, types, prepared)
    items = tuple(SelectItem(results.extract(item.expression), item.alias) for item in grouping.items)
    having = None if grouping.having is None else results.extract(grouping.having)
    grouped = _group(prepared, grouping.group_by, types)
    result = _aggregate(analysis, grouped, required, tuple(results.calls), types)
    if having is not None:
        result = filtered(result, having, "HAVING", "Aggregate/HavingFilter", types)
    return _project(grouping, items, result, names, types, is_persistent=sink is not None)


def _grouping(analysis: Analysis, relation: Relation, types: Types) -> Grouping:
    prepare = _with_default(analysis.scope.plain(_row_time(analysis)), types)
    # Only push queries may lack GROUP BY; then all rows are one group.
    group_by = (
        tuple(map(analysis.scope.plain, analysis.group_by))
        if analysis.group_by is not None
        else (BooleanLiteral(True),)
    )
    having = None if analysis.having is None else prepare(analysis.scope.plain(analysis.having))
    return Grouping(expand(analysis, relation, None, prepare), group_by, having)


def _row_time(analysis: Analysis) -> ColumnRef:
    return ColumnRef(ROWTIME.name, analysis.scope.sources[0].alias)


def _with_default(default: Expression, types: Types) -> Callable[[Expression], Expression]:
    """Return a function that gives the aggregates in an expression that lack an argument the argument `default`."""

    def rule(node: Expression) -> Expression | None:
        if isinstance(node, FunctionCall) and not node.arguments and types.is_aggregate(node.name):
            return replace(node, arguments=(default,))
        return None

    return lambda expression: rewrite(expression, rule)


def _check_types(analysis: Analysis, relation: Relation, types: Types) -> None:
    """Check the types before aggregates become columns, so that messages name expressions as they are written."""
    own_bounds = WINDOW_BOUNDS if analysis.query.window is not None else ()
    columns = {**relation.scope, **{column.name: column.type for column in own_bounds}}
    as_written = analysis.scope.as_written
    prepare = _with_default(as_written(_row_time(analysis)), types)
    scope = {**columns, **analysis.scope.columns_as_written()}
    for expression in analysis.group_by or ():
        types.of(as_written(expression), scope)
    check_items(analysis, columns, types, prepare)
    if analysis.having is not None:
        check_predicate(prepare(as_written(analysis.having)), "HAVING", scope, types)


def _key_names(grouping: Grouping, scope: Scope, sink: str | None) -> tuple[str | None, ...]:
    """The alias of each grouping expression in the projection; None if the projection does not have it."""
    alias_lists = [
        [item.alias for item in grouping.items if item.expression == expression] for expression in grouping.group_by
    ]
    for aliases in alias_lists:
        if len(aliases) > 1 and sink is not None:
            listed = and_list(map(quote, aliases))
            raise StatementError(f"The projection contains a key column more than once: {listed}.\n{COPY_KEY_HINT}")
    missing = [scope.readable(e) for e, aliases in zip(grouping.group_by, alias_lists, strict=True) if not aliases]
    if missing and sink is not None:
        raise missing_key(sink, "grouping expression", missing)
    return tuple(aliases[0] if aliases else None for aliases in alias_lists)


def _required(expressions: Iterable[Expression], bounds: frozenset[str]) -> tuple[str, ...]:
    """The columns that the grouping passes on, including those of WHERE, as in ksqlDB."""
    names = (ref.name for expression in expressions for ref in column_refs(expression))
    return tuple(dict.fromkeys(name for name in names if name not in bounds))


class _Arguments:
    """The columns that the step before the grouping computes: required columns, then computed arguments."""

    def __init__(self, required: Iterable[str]) -> None:
        self._names: dict[Expression, str] = {ColumnRef(name): name for name in required}

    def add(self, argument: Expression) -> None:
        if not isinstance(argument, ColumnRef):
            self._names.setdefault(argument, f"KSQL_INTERNAL_COL_{len(self._names)}")

    def column(self, argument: Expression) -> Expression:
        return ColumnRef(self._names[argument]) if argument in self._names else argument

    def items(self) -> tuple[SelectItem, ...]:
        return tuple(SelectItem(expression, name) for expression, name in self._names.items())


class _Results:
    """Replaces the aggregates in expressions by result columns; every call gets its own column, even equal calls."""

    def __init__(self, arguments: _Arguments, types: Types, prepared: Relation) -> None:
        self._arguments = arguments
        self._types = types
        self._scope = prepared.scope
        self.calls: list[FunctionCall] = []

    def extract(self, expression: Expression) -> Expression:
        return rewrite(expression, self._rule)

    def _rule(self, node: Expression) -> Expression | None:
        if not isinstance(node, FunctionCall) or not self._types.is_aggregate(node.name):
            return None
        literals = self._types.overload(node, self._scope).literals
        arguments = (a if i in literals else self._arguments.column(a) for i, a in enumerate(node.arguments))
        self.calls.append(FunctionCall(node.name, tuple(arguments)))
        return ColumnRef(f"KSQL_AGG_VARIABLE_{len(self.calls) - 1}")


def _group(relation: Relation, group_by: tuple[Expression, ...], types: Types) -> Relation:
    context = "Aggregate/GroupBy"
    if not relation.is_table and relation.window is None and relation.is_keyed_by(group_by):
        formats = internal_formats(relation.formats, relation.schema.key, rekeyed=False)
        by_key = StreamGroupByKeyV1(query_context=context, source=relation.step, internal_formats=formats)
        return replace(relation.then(by_key, types), formats=formats)
    step = TableGroupByV2 if relation.is_table else StreamGroupByV2

    def built(source: Relation) -> Step:
        return step(
            query_context=context, source=source.step, internal_formats=source.formats, group_by_expressions=group_by
        )

    key = relation.then(built(relation), types).schema.key
    check_key_types(key)
    with_formats = replace(relation, formats=internal_formats(relation.formats, key))
    return replace(with_formats.then(built(with_formats), types), window=None)


def _aggregate(
    analysis: Analysis, relation: Relation, required: tuple[str, ...], functions: tuple[FunctionCall, ...], types: Types
) -> Relation:
    context = "Aggregate/Aggregate"
    _check_undoable(relation, functions, types)
    _check_storable(relation, functions, types)
    window = analysis.query.window
    make: Callable[..., Step] = TableAggregateV1 if relation.is_table else StreamAggregateV1
    extra = {}
    if window is not None:
        if relation.is_table:
            raise StatementError("Windowing not supported for table aggregations.", span=window.span)
        make = StreamWindowedAggregateV1
        extra = {"window_expression": window_expression(window, analysis.query.emit)}
    step = make(
        query_context=context,
        source=relation.step,
        internal_formats=relation.formats,
        non_aggregate_columns=required,
        aggregation_functions=functions,
        **extra,
    )
    info = None if window is None else window_info(window, analysis.query.emit)
    return replace(relation.then(step, types), kind=SourceKind.TABLE, window=info)


def _check_undoable(relation: Relation, functions: tuple[FunctionCall, ...], types: Types) -> None:
    if not relation.is_table:
        return
    scope = relation.scope
    overloads = ((call.name, types.overload(call, scope).function) for call in functions)
    names = sorted({name for name, overload in overloads if isinstance(overload, Aggregate) and not overload.undoable})
    if names:
        raise StatementError(
            f"The aggregation function(s) ({', '.join(names)}) cannot be applied to a table source, "
            "only to a stream source."
        )


def _check_storable(relation: Relation, functions: tuple[FunctionCall, ...], types: Types) -> None:
    scope = relation.scope
    states = tuple(Column(f"KSQL_AGG_VARIABLE_{i}", types.state(call, scope)) for i, call in enumerate(functions))
    if format_of(relation.formats.value_format.format).check(states):
        raise FormatError(
            "One of the functions used in the statement has an intermediate type that the value format can not handle. "
            "Please remove the function or change the format.",
            hint=f"the value format is {relation.formats.value_format.format}",
        )


def _project(
    grouping: Grouping,
    items: tuple[SelectItem, ...],
    relation: Relation,
    names: tuple[str | None, ...],
    types: Types,
    *,
    is_persistent: bool,
) -> Relation:
    keys = tuple(name or old for name, old in zip(names, relation.key_names, strict=True))
    if not is_persistent:
        return select(relation, keys, items, "Aggregate/Project", types)
    written = [original.expression for original in grouping.items]
    values = tuple(
        item
        for item, expression in zip(items, written, strict=True)
        if expression not in grouping.group_by and not _is_bound(item)
    )
    result = select(relation, keys, values, "Aggregate/Project", types)
    check_distinct((*(Column(c.name, c.type) for c in result.schema.key), *result.schema.value), "value")
    return result


def _is_bound(item: SelectItem) -> bool:
    return (
        isinstance(item.expression, ColumnRef)
        and item.expression.name in BOUND_NAMES
        and item.alias == item.expression.name
    )
