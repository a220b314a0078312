"""Builds projections: expands stars, and decides which items become key columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kestrel_sql.errors import StatementError
from kestrel_sql.plan.step import SelectItem, Step
from kestrel_sql.plan.steps.streams import StreamSelectV1
from kestrel_sql.plan.steps.tables import TableSelectV1
from kestrel_sql.planner.analysis.analyze import Analysis
from kestrel_sql.planner.analysis.join_names import and_list, prefixed
from kestrel_sql.planner.analysis.scope import BOUND_NAMES, star
from kestrel_sql.planner.expressions.literal_casts import fit_literal
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.lowering.relation import Relation
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression
from kestrel_sql.sql.nodes.statements import SelectAll
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import SqlType, quote

COPY_KEY_HINT = (
    "Each key column must only be in the projection once. If you intended to copy the key into the value, "
    "then consider using the AS_VALUE function to indicate which key reference should be copied."
)


def expand(
    analysis: Analysis, relation: Relation, target: Schema | None, prepare: Callable[[Expression], Expression]
) -> tuple[SelectItem, ...]:
    """Return the items of the projection over `relation`, which no table function has exploded yet.

    `prepare` is applied to every expression. `target` is the schema that an INSERT INTO writes to, to which literals
    are fitted.
    """
    items = tuple(_expanded(analysis, relation, prepare))
    if target is None:
        return items
    columns = target.keys_first
    return tuple(
        SelectItem(fit_literal(item.expression, columns[i].type), item.alias) if i < len(columns) else item
        for i, item in enumerate(items)
    )


def check_items(
    analysis: Analysis,
    columns: Mapping[str, SqlType],
    types: Types,
    prepare: Callable[[Expression], Expression] = lambda expression: expression,
) -> None:
    """Check the types of the items of SELECT as they are written, so that messages show no column of the plan.

    `columns` has the columns that no source has, and `prepare` is applied to every expression.

    Raises:
        StatementError: an item has a type error.
    """
    scope = {**columns, **analysis.scope.columns_as_written()}
    for item in analysis.select:
        if not isinstance(item, SelectAll):
            with invalid_select():
                types.of(prepare(analysis.scope.as_written(item.expression)), scope)


def _expanded(
    analysis: Analysis, relation: Relation, prepare: Callable[[Expression], Expression]
) -> Iterator[SelectItem]:
    for item in analysis.select:
        if isinstance(item, SelectAll):
            yield from (SelectItem(ColumnRef(name), name) for name in _star(analysis, relation, item.qualifier))
        else:
            yield SelectItem(prepare(_over_keys(item.expression, analysis, relation)), item.alias or "")


def _star(analysis: Analysis, relation: Relation, qualifier: str | None) -> Iterator[str]:
    if analysis.partition_by is not None:
        yield from _star_of_rekeyed(analysis, relation, qualifier)
        return
    names = list(analysis.scope.star(qualifier))
    if qualifier is None and analysis.scope.is_join:
        # No source has the synthetic key.
        yield from (name for name in relation.key_names if name not in names)
    yield from names


def _star_of_rekeyed(analysis: Analysis, relation: Relation, qualifier: str | None) -> Iterator[str]:
    names = star(relation.schema)
    if qualifier is None or not analysis.scope.is_join:
        return names
    source = analysis.scope.source(qualifier)
    own = {prefixed(qualifier, column.name) for column in source.rows.value}
    return (name for name in names if name in own)


def _over_keys(expression: Expression, analysis: Analysis, relation: Relation) -> Expression:
    partition_by = analysis.partition_by or ()
    if expression in partition_by and len(relation.key_names) == len(partition_by):
        return ColumnRef(relation.key_names[partition_by.index(expression)], span=expression.span)
    return analysis.scope.plain(expression)


def project(
    analysis: Analysis, relation: Relation, items: tuple[SelectItem, ...], context: str, types: Types
) -> Relation:
    """Add a select step for the projection; in a persistent query, selected key columns stay out of the value.

    Raises:
        StatementError: an item has a type error, or a key column is selected twice.
    """
    if not analysis.is_persistent:
        result = select(relation, relation.key_names, items, context, types)
        check_distinct(result.schema.value, "value")
        return result
    names: dict[str, list[str]] = {}
    values = []
    for item in items:
        name = item.expression.name if isinstance(item.expression, ColumnRef) else None
        if name in relation.key_names:
            names.setdefault(name or "", []).append(item.alias)
        elif not (name in BOUND_NAMES and item.alias == name):
            values.append(item)
    for name, aliases in names.items():
        if len(set(aliases)) > 1:
            raise StatementError(
                f"The projection contains a key column (`{name}`) more than once, "
                f"aliased as: {and_list(sorted(set(aliases)))}.\n{COPY_KEY_HINT}"
            )
    keys = tuple(names[name][0] if name in names else name for name in relation.key_names)
    return select(relation, keys, tuple(values), context, types)


def select(
    relation: Relation, keys: tuple[str, ...], items: tuple[SelectItem, ...], context: str, types: Types
) -> Relation:
    """Add a select step.

    Raises:
        StatementError: an item has a type error.
    """
    step: Step
    if relation.is_table:
        step = TableSelectV1(
            query_context=context,
            source=relation.step,
            key_column_names=keys,
            select_expressions=items,
            internal_formats=relation.formats,
        )
    else:
        step = StreamSelectV1(
            query_context=context, source=relation.step, key_column_names=keys, select_expressions=items
        )
    with invalid_select():
        return relation.then(step, types)


@contextmanager
def invalid_select() -> Iterator[None]:
    """Say before the message of an error that an item of SELECT causes it."""
    try:
        yield
    except StatementError as error:
        raise type(error)(f"Invalid Select: {error.message}", span=error.span, hint=error.hint) from error


def check_result(schema: Schema) -> None:
    """Check the columns of a persistent query's result.

    Raises:
        StatementError: there is no value column, or two columns have the same name.
    """
    if not schema.value:
        raise StatementError("The projection contains no value columns.")
    check_distinct(schema.key, "key")
    check_distinct(schema.value, "value")
    taken = {column.name for column in schema.key}
    clashing = [column for column in schema.value if column.name in taken]
    if clashing:
        raise StatementError(
            f"Value columns clash with key columns: {', '.join(map(quote, (c.name for c in clashing)))}"
        )


def check_distinct(columns: tuple[Column, ...], noun: str) -> None:
    """Check that no two columns have the same name; messages call them `noun` columns.

    Raises:
        StatementError: names the repeated columns.
    """
    first: dict[str, int] = {}
    duplicates = [column for i, column in enumerate(columns) if first.setdefault(column.name, i) != i]
    if duplicates:
        raise StatementError(f"Duplicate {noun} columns found in schema: {', '.join(map(str, duplicates))}")
