"""The joining steps by key, for all carriers."""

from __future__ import annotations

from kestrel_sql.dataflow.joins import stream_stream_join, stream_table_join, table_table_join
from kestrel_sql.dataflow.keys import is_delimited
from kestrel_sql.dataflow.query import Build
from kestrel_sql.dataflow.relation import AnyRelation
from kestrel_sql.plan.step import Formats
from kestrel_sql.plan.steps.joins import StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1


def stream_stream_join_v1(
    step: StreamStreamJoinV1, build: Build[AnyRelation], left: AnyRelation, right: AnyRelation
) -> AnyRelation:
    """Join two streams within a time span."""
    left = _repartitioned(step.left_internal_formats, build, left)
    right = _repartitioned(step.right_internal_formats, build, right)
    return build.stateful(stream_stream_join(step, build, left, right), (left, right), build.logger(step))


def stream_table_join_v1(
    step: StreamTableJoinV1, build: Build[AnyRelation], left: AnyRelation, right: AnyRelation
) -> AnyRelation:
    """Look each row of a stream up in a table."""
    left = _repartitioned(step.internal_formats, build, left)
    return build.stateful(stream_table_join(step, build, left, right), (left, right), build.logger(step))


def table_table_join_v1(
    step: TableTableJoinV1, build: Build[AnyRelation], left: AnyRelation, right: AnyRelation
) -> AnyRelation:
    """Join two tables on their keys."""
    return build.stateful(table_table_join(step, build, left, right), (left, right), build.logger(step))


def _repartitioned(formats: Formats, build: Build[AnyRelation], source: AnyRelation) -> AnyRelation:
    """Drop the rows whose keys an internal topic loses (rule F4.3.7)."""
    is_lost = is_delimited(source, formats) and len(source.schema.key) <= 1
    return build.with_keys(source) if is_lost else source
