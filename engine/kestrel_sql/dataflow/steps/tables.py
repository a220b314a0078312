"""The row-wise, re-keying and grouping steps of tables."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.internal_topics import crossed, repartitioned
from kestrel_sql.dataflow.key_bytes import key_bytes
from kestrel_sql.dataflow.projections import Grouping, NewKey, Predicate, Projection
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.dataflow.rows import Log, Part, Rows
from kestrel_sql.dataflow.steps.streams import kept_keys, listed_text, selected_text
from kestrel_sql.operators.tables.materialise import Materialise
from kestrel_sql.plan.steps.tables import TableFilterV1, TableGroupByV1, TableGroupByV2, TableSelectKeyV1, TableSelectV1
from kestrel_sql.sql.format.statements import format_expression


def with_old(query: GraphQuery, source: Relation, logger: str) -> Relation:
    """Return the same table with its old rows, through a store unless it already has them."""
    if source.has_old:
        return source
    rowtime = next((at for at, column in enumerate(source.schema.value) if column.name == "ROWTIME"), None)
    operator = Materialise(key_bytes=key_bytes(query, source), rowtime=rowtime)
    return query.stateful((operator, replace(source, has_old=True)), (source,), logger)


def table_filter_v1(step: TableFilterV1, query: GraphQuery, source: Relation) -> Relation:
    """Filter a table.

    A row that fails becomes a tombstone. If its previous version is known and failed, too, it is dropped (rules O4).
    """
    compares = step.has_old_rows
    if compares:
        source = with_old(query, source, query.logger(step))
    holds = Predicate(query, source, step, step.filter_expression)

    def apply(log: Log, rows: Rows) -> Rows:
        new = holds(log, rows, rows.value)
        changed = replace(rows, value=rows.value.where(new))
        if rows.old is None:
            return changed.where(new) if compares else changed
        old = holds(log, rows, rows.old, silent=True)
        changed = replace(changed, old=rows.old.where(old))
        return changed.where([now or before for now, before in zip(new, old, strict=True)]) if compares else changed

    return query.then(source, apply, source, f"filter {format_expression(step.filter_expression)}")


def table_select_v1(step: TableSelectV1, query: GraphQuery, source: Relation) -> Relation:
    """Compute the value columns of the new row, and of the old row if the source has it."""
    project = Projection(query, source, step, step.select_expressions)
    schema = query.schema(step, source)
    kept = kept_keys(source.schema, schema, step.key_column_names)

    def apply(log: Log, rows: Rows) -> Rows:
        value = project(log, rows, rows.value)
        old = None if rows.old is None else project(log, rows, rows.old, silent=True)
        return replace(rows, key=rows.key.select(kept), value=value, old=old)

    text = selected_text(step.select_expressions, project.by_values)
    return query.then(source, apply, replace(source, schema=schema), text)


def table_select_key_v1(step: TableSelectKeyV1, query: GraphQuery, source: Relation) -> Relation:
    """Re-key changes, without old rows; a later step that needs old rows stores them under the new key."""
    new_key = NewKey(query, source, step, step.key_expression)

    def apply(log: Log, rows: Rows) -> Rows:
        return replace(rows, key=new_key(log, rows), old=None)

    codec = KeyCodec.of(step.internal_formats)
    facts = replace(source, schema=query.schema(step, source), key_codec=codec, has_old=False, rekeyed=True)
    keyed = query.then(source, apply, facts, f"key {listed_text(step.key_expression)}")
    return repartitioned(step.internal_formats, query, keyed)


def table_group_by_v1(step: TableGroupByV1, query: GraphQuery, source: Relation) -> Relation:
    """Group as releases up to 6.2 did: several expressions make one STRING key."""
    return _grouped(step, query, source, joined=True)


def table_group_by_v2(step: TableGroupByV2, query: GraphQuery, source: Relation) -> Relation:
    """Group both versions of a row; a version without a group is ignored."""
    return _grouped(step, query, source, joined=False)


def _grouped(step: TableGroupByV1 | TableGroupByV2, query: GraphQuery, source: Relation, *, joined: bool) -> Relation:
    source = with_old(query, source, query.logger(step))
    group = Grouping(query, source, step, step.group_by_expressions, joined=joined)

    def apply(log: Log, rows: Rows) -> Rows:
        old = rows.old or Part.nothing(rows.size, len(rows.value.cells))
        key, old_key = group(log, rows, rows.value), group(log, rows, old, silent=True)
        return replace(rows, key=key, old=old, old_key=old_key).where(
            [key.has(at) or old_key.has(at) for at in range(rows.size)]
        )

    codec = KeyCodec.of(step.internal_formats)
    facts = replace(
        source, schema=query.schema(step, source), key_codec=codec, has_old=True, has_old_key=True, rekeyed=True
    )
    grouped = query.then(source, apply, facts, f"group {listed_text(step.group_by_expressions)}")
    return crossed(step.internal_formats, query, grouped)
