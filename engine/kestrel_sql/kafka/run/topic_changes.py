"""What happened to the topics of a query since it was first started: nothing of it may pass in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.offsets import BrokerOffsets, Topic
from kestrel_sql.kafka.client.positions import Offsets
from kestrel_sql.kafka.run.manifest import CheckpointFolder, StoredQuery

BEGIN_ANEW = "a new checkpoint begins anew, and so does a new name for what the query writes"


def deleted(name: str, stored: StoredQuery) -> str:
    """Say that a query's topic is gone."""
    return f"the topic {name}, which {stored.id} reads, was deleted"


def changes(stored: StoredQuery, found: Mapping[str, Topic]) -> Iterator[str]:
    """What became of the topics that a query reads, as sentences."""
    for name, known in stored.sources.items():
        topic = found.get(name)
        if topic is None:
            yield deleted(name, stored)
        elif topic.id != known.id:
            yield f"the topic {name}, which {stored.id} reads, was deleted and created anew: its offsets mean other records"
        elif topic.partitions != known.partitions:
            yield (
                f"the topic {name}, which {stored.id} reads, has {topic.partitions} partitions instead of {known.partitions}: "
                "keys have moved between them"
            )


def changed(stored: StoredQuery, offsets: BrokerOffsets) -> QueryError | None:
    """Say whether a query's topics are no longer those that it began with.

    Raises:
        QueryError: the broker does not answer.
    """
    said = next(changes(stored, offsets.topics(stored.sources)), None)
    return None if said is None else QueryError(said, hint=BEGIN_ANEW)


def damaged(stored: StoredQuery, folder: CheckpointFolder, offsets: BrokerOffsets) -> QueryError | None:
    """Say whether a query cannot go on from its checkpoint, as its topics changed or no longer hold what it has not read.

    Raises:
        QueryError: the broker does not answer.
    """
    return changed(stored, offsets) or _lost(stored, folder.next_offsets(stored.id) or stored.start, offsets)


def _lost(stored: StoredQuery, begin: Offsets, offsets: BrokerOffsets) -> QueryError | None:
    first, ends = offsets.first(begin), offsets.ends(begin)
    for (topic, partition), offset in begin.items():
        where = f"partition {partition} of the topic {topic}"
        if (oldest := first[topic, partition]) > offset:
            return QueryError(
                f"records {offset} to {oldest - 1} of {where} are gone, and {stored.id} had not read them",
                hint=f"was the retention too short? {BEGIN_ANEW}",
            )
        if (end := ends[topic, partition]) < offset:
            return QueryError(
                f"{where} ends at offset {end}, but {stored.id} has read it up to {offset}",
                hint=f"did the broker lose records, or was it restored? {BEGIN_ANEW}",
            )
    return None
