"""How a query reads its topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1
from kestrel_sql.plan.steps.streams import StreamGroupByV1, StreamGroupByV2, StreamSelectKeyV1, StreamSelectKeyV2
from kestrel_sql.plan.steps.tables import TableGroupByV1, TableGroupByV2, TableSelectKeyV1


class Reading(StrEnum):
    """The source of a query. It is stored in the manifest, because a checkpoint belongs to one source."""

    PLAIN = "plain"
    MERGED = "merged"
    DIRECT = "direct"
    """Spark only plans the batches: without state, the tasks that write the records read them, too."""


REKEYED: tuple[type[Step], ...] = (
    StreamGroupByV1,
    StreamGroupByV2,
    StreamSelectKeyV1,
    StreamSelectKeyV2,
    TableGroupByV1,
    TableGroupByV2,
    TableSelectKeyV1,
    FkTableTableJoinV1,
)
"""Steps after which one task may get records of several partitions."""


def steps(step: Step) -> Iterator[Step]:
    """Return a step and all steps upstream of it."""
    yield step
    for upstream in step.upstream:
        yield from steps(upstream)


def reading_of(plan: Step, topics: Sequence[str], partitions: Mapping[str, int], levels: int) -> Reading:
    """Return the source that a query needs.

    Merged if its state depends on several topics, or on several partitions after re-keying.
    """
    if levels == 0:
        return Reading.DIRECT
    if len(topics) > 1:
        return Reading.MERGED
    mixes = max(partitions.values(), default=1) > 1 and any(isinstance(step, REKEYED) for step in steps(plan))
    return Reading.MERGED if mixes else Reading.PLAIN
