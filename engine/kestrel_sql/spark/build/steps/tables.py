"""Builders of the row-wise, re-keying and grouping steps of tables."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.demand import knows_old_rows
from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.plan.steps.tables import TableFilterV1, TableGroupByV1, TableGroupByV2, TableSelectKeyV1, TableSelectV1
from kestrel_sql.spark.build.grouping import grouped_key
from kestrel_sql.spark.build.projections import key_struct, predicate, projection, rekeyed, renamed_key, with_old
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation


def table_filter_v1(step: TableFilterV1, build: QueryBuild, source: Handle) -> Handle:
    """Filter a table.

    A row that fails becomes a tombstone. If its previous version is known and failed, too, it is dropped (rules O4).
    """
    compares = knows_old_rows(step)
    if compares:
        source = with_old(build, source, build.logger(step))
    new_holds, faults = predicate(build, source, step.filter_expression, "v")
    conditions = {"v": new_holds}
    if source.has_old:
        conditions["o"], _ = predicate(build, source, step.filter_expression, "o")
    fields = []
    for field, tree in source.unchanged():
        condition = conditions.get(field)
        fields.append((field, tree if condition is None else s.if_(condition, tree, s.NULL)))
    keep = s.any_of(list(conditions.values())) if compares else None
    operation = Operation(fields=tuple(fields), keep=keep, faults=faults, logger=build.logger(step))
    return build.apply(source, operation, source)


def table_select_v1(step: TableSelectV1, build: QueryBuild, source: Handle) -> Handle:
    """Compute the value columns of the new row, and of the old row if the source has it."""
    value, faults = projection(build, source, step.select_expressions, "v")
    schema = build.schema(step, source)
    names = step.key_column_names or tuple(c.name for c in source.schema.key)
    fields = [*renamed_key(source, names, [c.name for c in schema.key]), ("v", value)]
    if source.has_old:
        old, _ = projection(build, source, step.select_expressions, "o")
        fields.append(("o", old))
    operation = Operation(fields=tuple(fields), faults=faults, logger=build.logger(step))
    return build.apply(source, operation, replace(source, schema=schema))


def table_select_key_v1(step: TableSelectKeyV1, build: QueryBuild, source: Handle) -> Handle:
    """Re-key changes, without old rows; a later step that needs old rows stores them under the new key."""
    schema = build.schema(step, source)
    trees, faults = rekeyed(build, source, step.key_expression)
    operation = Operation(
        fields=(*key_struct(schema.key, trees), ("v", source.part("v"))), faults=faults, logger=build.logger(step)
    )
    codec = KeyCodec.of(step.internal_formats)
    return build.apply(source, operation, replace(source, schema=schema, key_codec=codec, has_old=False, rekeyed=True))


def table_group_by_v1(step: TableGroupByV1, build: QueryBuild, source: Handle) -> Handle:
    """Group as releases up to 6.2 did: several expressions make one STRING key."""
    return _grouped(step, build, source, joined=True)


def table_group_by_v2(step: TableGroupByV2, build: QueryBuild, source: Handle) -> Handle:
    """Group both versions of a row; a version without a group is ignored."""
    return _grouped(step, build, source, joined=False)


def _grouped(step: TableGroupByV1 | TableGroupByV2, build: QueryBuild, source: Handle, *, joined: bool) -> Handle:
    source = with_old(build, source, build.logger(step))
    schema = build.schema(step, source)
    key, usable, faults = grouped_key(build, source, step.group_by_expressions, schema, "v", joined=joined)
    old_key, old_usable, _ = grouped_key(build, source, step.group_by_expressions, schema, "o", joined=joined)
    operation = Operation(
        fields=(
            ("k", s.if_(usable, key, s.NULL)),
            ("v", source.part("v")),
            ("o", source.part("o")),
            ("ok", s.if_(old_usable, old_key, s.NULL)),
        ),
        keep=s.any_of([usable, old_usable]),
        faults=faults,
        logger=build.logger(step),
    )
    codec = KeyCodec.of(step.internal_formats)
    return build.apply(
        source, operation, replace(source, schema=schema, key_codec=codec, has_old=True, has_old_key=True, rekeyed=True)
    )
