"""Materialisation: finds or adds the operator whose state has the rows of a table, for pull queries."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kestrel_sql.dataflow.graph import Graph, GraphQuery, Stateful
from kestrel_sql.dataflow.key_bytes import key_bytes
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.steps.sinks import table_sink_v1
from kestrel_sql.dataflow.steps.tables import table_filter_v1, table_select_v1, with_old
from kestrel_sql.operators.table_rows import holds_table
from kestrel_sql.operators.tables.table_store import TableStore
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.sinks import TableSinkV1
from kestrel_sql.plan.steps.sources import TableSourceV1, TableSourceV2, WindowedTableSourceV1
from kestrel_sql.plan.steps.tables import TableFilterV1, TableSelectV1

Build = Callable[[Step, GraphQuery], Relation]

_SOURCES = (TableSourceV1, TableSourceV2, WindowedTableSourceV1)


def build_queryable(root: Step, query: GraphQuery, build: Build, *, replaceable: bool) -> Relation:
    """Build a plan whose table is materialised: by its last operator, or by a store that is added before the sink.

    With `replaceable`, the plan has the same operators with and without filters, so that CREATE OR REPLACE finds its
    state: old rows of source tables, which only filters read, are then always stored.
    """
    if isinstance(root, TableSinkV1):
        source = _with_old_rows(root.source, query, build) if replaceable else build(root.source, query)
        return table_sink_v1(root, query, _materialised(root, query, source))
    return _materialised(root, query, build(root, query))


def _with_old_rows(step: Step, query: GraphQuery, build: Build) -> Relation:
    if isinstance(step, TableSelectV1):
        return table_select_v1(step, query, _with_old_rows(step.source, query, build))
    if isinstance(step, TableFilterV1):
        return table_filter_v1(step, query, _with_old_rows(step.source, query, build))
    relation = build(step, query)
    return with_old(query, relation, query.logger(step)) if isinstance(step, _SOURCES) else relation


def _materialised(root: Step, query: GraphQuery, result: Relation) -> Relation:
    if not result.is_table or _materialising(query.graph, result) is not None:
        return result
    operator = TableStore(key_bytes=key_bytes(query, result), width=len(result.schema.value))
    facts = replace(result, has_old=False, has_old_key=False)
    return query.stateful((operator, facts), (result,), query.logger(root))


class QueryableTable(msgspec.Struct, frozen=True):
    """Where a table is materialised: an operator, and the steps from its rows to those of the table, in order."""

    stateful: Stateful
    steps: tuple[Step, ...]


def queryable_table(graph: Graph, number: int, root: Step) -> QueryableTable | None:
    """Return where the table of a query is materialised; None if it is not."""
    end = graph.ends[number]
    stateful = _materialising(graph, end) if end.is_table else None
    if stateful is None:
        return None
    steps: list[Step] = []
    if not isinstance(stateful.operator, TableStore):
        step = root.upstream[0] if isinstance(root, TableSinkV1) else root
        while isinstance(step, TableSelectV1 | TableFilterV1):
            steps.insert(0, step)
            step = step.source
    return QueryableTable(stateful, tuple(steps))


def _materialising(graph: Graph, relation: Relation) -> Stateful | None:
    """The operator whose rows a relation has, if its state has a table."""
    stateful = graph.stateful(relation)
    return stateful if stateful is not None and holds_table(stateful.operator) else None
