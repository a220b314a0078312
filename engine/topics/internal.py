"""Names of the internal topics that ksqlDB would have for a query; we have none, but cases speak of them."""

from __future__ import annotations

from collections.abc import Iterator

from engine.plan.document import QueryPlan
from engine.plan.step import Formats, Step, WindowInfo
from engine.plan.steps.aggregates import StreamAggregateV1, StreamWindowedAggregateV1, TableAggregateV1
from engine.plan.steps.joins import StreamStreamJoinV1, StreamTableJoinV1
from engine.plan.steps.streams import StreamGroupByV1, StreamGroupByV2, StreamSelectKeyV1, StreamSelectKeyV2
from engine.plan.steps.tables import TableGroupByV1, TableGroupByV2, TableSelectKeyV1

_GROUPED = StreamGroupByV1 | StreamGroupByV2 | TableGroupByV1 | TableGroupByV2
_REKEYED = StreamSelectKeyV1 | StreamSelectKeyV2
_AGGREGATES = StreamAggregateV1 | StreamWindowedAggregateV1 | TableAggregateV1

InternalTopic = tuple[str, Formats, WindowInfo | None]


def internal_topics(plan: QueryPlan, service_id: str) -> Iterator[InternalTopic]:
    """List name, formats and window of a query's repartition and changelog topics (`spec/language.md` 10)."""
    prefix = f"_confluent-ksql-{service_id}query_{plan.query_id}-"
    for step in _walk(plan.physical_plan):
        for operator, formats in _of_step(step):
            yield f"{prefix}{operator}", formats, None


def _walk(step: Step) -> Iterator[Step]:
    yield step
    for source in step.upstream:
        yield from _walk(source)


def _of_step(step: Step) -> Iterator[tuple[str, Formats]]:
    operator = step.query_context.replace("/", "-")
    match step:
        case StreamGroupByV1() | StreamGroupByV2() | TableGroupByV1() | TableGroupByV2() | TableSelectKeyV1():
            yield f"{operator}-repartition", step.internal_formats
        case StreamAggregateV1() | StreamWindowedAggregateV1() | TableAggregateV1():
            yield f"{operator}-Materialize-changelog", step.internal_formats
        case StreamStreamJoinV1():
            for side, source, formats in (
                ("left", step.left_source, step.left_internal_formats),
                ("right", step.right_source, step.right_internal_formats),
            ):
                if _rekeys(source):
                    yield f"{operator}-{side}-repartition", formats
        case StreamTableJoinV1() if _rekeys(step.left_source):
            yield f"{operator}-left-repartition", step.internal_formats
        case _:
            return


def _rekeys(step: Step) -> bool:
    """Whether a re-keying lies between a join and the next stateful step."""
    if isinstance(step, _REKEYED):
        return True
    stateful = _AGGREGATES | StreamStreamJoinV1 | StreamTableJoinV1
    return not isinstance(step, stateful) and any(_rekeys(source) for source in step.upstream)
