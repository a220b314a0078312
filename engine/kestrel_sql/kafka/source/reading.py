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


def reading_of(
    plan: Step, topics: Sequence[str], partitions: Mapping[str, int], levels: int, *, keeps_partitions: bool = True
) -> Reading:
    """Return the source that a query needs.

    Merged if its state or the order in a partition of its sink depends on several topics, or on several partitions.
    Direct if it keeps no state, and a partition of its sink gets the records of one task.

    Args:
        plan: the query.
        topics: the topics that it reads.
        partitions: their numbers of partitions.
        levels: how many levels of stateful operators it has.
        keeps_partitions: whether a record whose key does not change goes to the partition of a sink that belongs to its
            own partition, and to no other.
    """
    if len(topics) > 1:
        return Reading.MERGED
    changes = (*REKEYED, *INGESTED) if levels == 0 else REKEYED
    keeps = keeps_partitions and not any(isinstance(step, changes) for step in plan.steps())
    if max(partitions.values(), default=1) > 1 and not keeps:
        return Reading.MERGED
    return Reading.DIRECT if keeps and levels == 0 else Reading.PLAIN
