"""What a SELECT list gives: which items become the key, and what the value columns are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
from kestrel_sql.types.sql_types import quote


def expand(
    analysis: Analysis, relation: Relation, target: Schema | None, prepare: Callable[[Expression], Expression]
) -> tuple[SelectItem, ...]:
    """Write the projection over the rows of `relation`, which are those before any table function.

    `prepare` is applied to every expression; literals are fitted to the columns of `target`, an INSERT INTO's stream.
    """
    items = tuple(_expanded(analysis, relation, prepare))
    if target is None:
        return items
    columns = target.columns
    return tuple(
        SelectItem(fit_literal(item.expression, columns[i].type), item.alias) if i < len(columns) else item
        for i, item in enumerate(items)
    )


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
        # A synthetic key is in no source, so that it has to be added.
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
    """Compute the projection; in a persistent query, key columns that are selected stay the key and leave the value.

    Raises:
        StatementError: an item is not well typed, or a key column is selected twice.
    """
    if not analysis.is_persistent:
        shown = select(relation, relation.key_names, items, context, types)
        check_distinct(shown.schema.value, "value")
        return shown
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
                f"The projection contains a key column (`{name}`) more than once, aliased as: {and_list(sorted(set(aliases)))}.\n"
                "Each key column must only be in the projection once. If you intended to copy the key into the value, then consider "
                "using the AS_VALUE function to indicate which key reference should be copied."
            )
    keys = tuple(names[name][0] if name in names else name for name in relation.key_names)
    return select(relation, keys, tuple(values), context, types)


def select(
    relation: Relation, keys: tuple[str, ...], items: tuple[SelectItem, ...], context: str, types: Types
) -> Relation:
    """Add a select step.

    Raises:
        StatementError: an item is not well typed.
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
    try:
        return relation.then(step, types)
    except StatementError as error:
        raise type(error)(f"Invalid Select: {error.message}", span=error.span, hint=error.hint) from error


def check_result(schema: Schema) -> None:
    """Check the columns of a persistent query's result.

    Raises:
        StatementError: no value column, or two columns of one name.
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


def check_distinct(columns: tuple[Column, ...], word: str) -> None:
    """Check that no two columns have one name; `word` is what messages call them.

    Raises:
        StatementError: names the repeated columns.
    """
    names = [column.name for column in columns]
    twice = [column for i, column in enumerate(columns) if column.name in names[:i]]
    if twice:
        raise StatementError(f"Duplicate {word} columns found in schema: {', '.join(map(str, twice))}")
