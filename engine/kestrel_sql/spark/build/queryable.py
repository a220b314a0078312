"""Materialisation: finds or adds the operator whose state has the rows of a table, for pull queries."""

from __future__ import annotations

from dataclasses import dataclass

from kestrel_sql.dataflow.tables import stored
from kestrel_sql.operators.table_rows import holds_table
from kestrel_sql.operators.tables.queryable import TableStore
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.sinks import TableSinkV1
from kestrel_sql.plan.steps.sources import TableSourceV1, TableSourceV2, WindowedTableSourceV1
from kestrel_sql.plan.steps.tables import TableFilterV1, TableSelectV1
from kestrel_sql.spark.build.projections import with_old
from kestrel_sql.spark.build.steps.sinks import table_sink_v1
from kestrel_sql.spark.build.steps.tables import table_filter_v1, table_select_v1
from kestrel_sql.spark.build.walk import build_step
from kestrel_sql.spark.stages.group import Group, QueryBuild, Stateful
from kestrel_sql.spark.stages.handles import Handle

_SOURCES = (TableSourceV1, TableSourceV2, WindowedTableSourceV1)


@dataclass(frozen=True, slots=True)
class QueryableTable:
    """Where a table is materialised.

    An operator, its level (from 1), and the steps from its rows to those of the table, in order.
    """

    level: int
    stateful: Stateful
    steps: tuple[Step, ...]


def build_queryable(root: Step, build: QueryBuild, *, replaceable: bool) -> Handle:
    """Build a plan whose table is materialised: by its last operator, or by a store that is added before the sink.

    With `replaceable`, the plan has the same operators with and without filters, so that CREATE OR REPLACE finds its
    state: old rows of source tables, which only filters read, are then always stored.
    """
    walk = _with_old_rows if replaceable else build_step
    if isinstance(root, TableSinkV1):
        return table_sink_v1(root, build, _materialised(root, build, walk(root.source, build)))
    return _materialised(root, build, build_step(root, build))


def _with_old_rows(step: Step, build: QueryBuild) -> Handle:
    if isinstance(step, TableSelectV1):
        return table_select_v1(step, build, _with_old_rows(step.source, build))
    if isinstance(step, TableFilterV1):
        return table_filter_v1(step, build, _with_old_rows(step.source, build))
    handle = build_step(step, build)
    return with_old(build, handle, build.logger(step)) if isinstance(step, _SOURCES) else handle


def _materialised(root: Step, build: QueryBuild, result: Handle) -> Handle:
    if not result.is_table or _materialising(build.group, result) is not None:
        return result
    return build.stateful(stored(build, result), (result,), build.logger(root))


def queryable_table(group: Group, query: int, root: Step) -> QueryableTable | None:
    """Return where the table of a query is materialised; None if it is not."""
    end = group.ends[query]
    stateful = _materialising(group, end) if end.is_table else None
    if stateful is None:
        return None
    steps: list[Step] = []
    if not isinstance(stateful.operator, TableStore):
        step = root.upstream[0] if isinstance(root, TableSinkV1) else root
        while isinstance(step, TableSelectV1 | TableFilterV1):
            steps.insert(0, step)
            step = step.source
    return QueryableTable(stateful.output.level, stateful, tuple(steps))


def _materialising(group: Group, handle: Handle) -> Stateful | None:
    """The operator that produced a relation, if its state has a table.

    Stateless steps keep the relation of their source.
    """
    found = (stateful for level in group.levels for stateful in level if stateful.output.relation == handle.relation)
    return next((stateful for stateful in found if holds_table(stateful.operator)), None)
