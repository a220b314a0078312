"""How a query reads its topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1
from kestrel_sql.plan.steps.streams import StreamGroupByV1, StreamGroupByV2, StreamSelectKeyV1, StreamSelectKeyV2
from kestrel_sql.plan.steps.tables import TableGroupByV1, TableGroupByV2, TableSelectKeyV1


class Reading(StrEnum):
    """The source of a query. It is stored in the manifest, because a checkpoint belongs to one source."""

    PLAIN = "plain"
    MERGED = "merged"
    DIRECT = "direct"
    """Spark only plans the batches: the tasks that write the records read them, too (ADR 47)."""


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

INGESTED: tuple[type[Step], ...] = (KafkaStreamSourceV1, KafkaTableSourceV1)
"""Sources whose keys may come from elsewhere in a message."""


def reading_of(plan: Step, topics: Sequence[str], partitions: Mapping[str, int], levels: int) -> Reading:
    """Return the source that a query needs.

    Merged if its state depends on several topics, or on several partitions after re-keying. Direct if it keeps no state
    and no key changes, so that a partition of its sink gets the records of one task.
    """
    if len(topics) > 1:
        return Reading.MERGED
    is_rekeyed = any(isinstance(step, REKEYED) for step in plan.steps())
    if levels == 0:
        has_own_keys = any(isinstance(step, INGESTED) for step in plan.steps())
        return Reading.PLAIN if is_rekeyed or has_own_keys else Reading.DIRECT
    return Reading.MERGED if is_rekeyed and max(partitions.values(), default=1) > 1 else Reading.PLAIN
