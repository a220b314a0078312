"""The row-wise, re-keying and grouping steps of tables."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.demand import knows_old_rows
from kestrel_sql.dataflow.graph import Flow, GraphQuery
from kestrel_sql.dataflow.projections import Grouping, NewKey, Predicate, Projection
from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.dataflow.rows import Made, Rows
from kestrel_sql.dataflow.steps.streams import renamed_key
from kestrel_sql.dataflow.tables import with_old_rows
from kestrel_sql.plan.steps.tables import TableFilterV1, TableGroupByV1, TableGroupByV2, TableSelectKeyV1, TableSelectV1


def with_old(query: GraphQuery, source: Flow, logger: str) -> Flow:
    """Return the same table with its old rows, through a store unless it already has them."""
    return source if source.has_old else query.stateful(with_old_rows(query, source), (source,), logger)


def table_filter_v1(step: TableFilterV1, query: GraphQuery, source: Flow) -> Flow:
    """Filter a table.

    A row that fails becomes a tombstone. If its previous version is known and failed, too, it is dropped (rules O4).
    """
    compares = knows_old_rows(step)
    if compares:
        source = with_old(query, source, query.logger(step))
    holds, has_old = Predicate(query, source, step, step.filter_expression), source.has_old

    def apply(made: Made, rows: Rows) -> Rows:
        new = holds(made, rows, [row.value for row in rows])
        old = holds(made, rows, [row.old for row in rows], silent=True) if has_old else [None] * len(rows)
        return [
            row.with_parts(row.key, row.value if now else None, row.old if before else None)
            for row, now, before in zip(rows, new, old, strict=True)
            if now or before or not compares
        ]

    return query.then(source, apply, source)


def table_select_v1(step: TableSelectV1, query: GraphQuery, source: Flow) -> Flow:
    """Compute the value columns of the new row, and of the old row if the source has it."""
    project = Projection(query, source, step, step.select_expressions)
    schema = query.schema(step, source)
    renamed, has_old = renamed_key(source.schema, schema, step.key_column_names), source.has_old

    def apply(made: Made, rows: Rows) -> Rows:
        values = project(made, rows, [row.value for row in rows])
        old = project(made, rows, [row.old for row in rows], silent=True) if has_old else [None] * len(rows)
        return [
            row.with_parts(renamed(row.key), value, before)
            for row, value, before in zip(rows, values, old, strict=True)
        ]

    return query.then(source, apply, replace(source, schema=schema))


def table_select_key_v1(step: TableSelectKeyV1, query: GraphQuery, source: Flow) -> Flow:
    """Re-key changes, without old rows; a later step that needs old rows stores them under the new key."""
    new_key = NewKey(query, source, step, step.key_expression)

    def apply(made: Made, rows: Rows) -> Rows:
        return [row.with_parts(key, row.value, None) for row, key in zip(rows, new_key(made, rows), strict=True)]

    codec = KeyCodec.of(step.internal_formats)
    facts = replace(source, schema=query.schema(step, source), key_codec=codec, has_old=False, rekeyed=True)
    return query.then(source, apply, facts)


def table_group_by_v1(step: TableGroupByV1, query: GraphQuery, source: Flow) -> Flow:
    """Group as releases up to 6.2 did: several expressions make one STRING key."""
    return _grouped(step, query, source, joined=True)


def table_group_by_v2(step: TableGroupByV2, query: GraphQuery, source: Flow) -> Flow:
    """Group both versions of a row; a version without a group is ignored."""
    return _grouped(step, query, source, joined=False)


def _grouped(step: TableGroupByV1 | TableGroupByV2, query: GraphQuery, source: Flow, *, joined: bool) -> Flow:
    source = with_old(query, source, query.logger(step))
    group = Grouping(query, source, step, step.group_by_expressions, joined=joined)

    def apply(made: Made, rows: Rows) -> Rows:
        keys = group(made, rows, [row.value for row in rows])
        old_keys = group(made, rows, [row.old for row in rows], silent=True)
        return [
            replace(row, key=key, old_key=old_key)
            for row, key, old_key in zip(rows, keys, old_keys, strict=True)
            if key is not None or old_key is not None
        ]

    codec = KeyCodec.of(step.internal_formats)
    facts = replace(
        source, schema=query.schema(step, source), key_codec=codec, has_old=True, has_old_key=True, rekeyed=True
    )
    return query.then(source, apply, facts)
