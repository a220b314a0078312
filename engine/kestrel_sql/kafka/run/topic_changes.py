"""Finds changes of a query's topics since its first start, none of which may go unnoticed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.offsets import BrokerOffsets, Topic
from kestrel_sql.kafka.client.positions import Offsets
from kestrel_sql.kafka.run.manifest import CheckpointFolder, StoredQuery

START_NEW = "to start again, use a new checkpoint, or another name for what the query writes"


def deleted(name: str, stored: StoredQuery) -> str:
    """Return the message for a deleted topic."""
    return f"the topic {name}, which {stored.id} reads, was deleted"


def changes(stored: StoredQuery, found: Mapping[str, Topic]) -> Iterator[str]:
    """Return the changes of the topics that a query reads, as sentences."""
    for name, known in stored.sources.items():
        topic = found.get(name)
        if topic is None:
            yield deleted(name, stored)
        elif topic.id != known.id:
            yield (
                f"the topic {name}, which {stored.id} reads, was deleted and created again, so its offsets are those of"
                " other records"
            )
        elif topic.partitions != known.partitions:
            yield (
                f"the topic {name}, which {stored.id} reads, has {topic.partitions} partitions instead of"
                f" {known.partitions}: keys have moved between partitions"
            )


def changed(stored: StoredQuery, offsets: BrokerOffsets) -> QueryError | None:
    """Return an error if the topics of a query are not those of its first start.

    Raises:
        QueryError: the broker does not answer.
    """
    said = next(changes(stored, offsets.topics(stored.sources)), None)
    return None if said is None else QueryError(said, hint=START_NEW)


def damaged(stored: StoredQuery, folder: CheckpointFolder, offsets: BrokerOffsets) -> QueryError | None:
    """Return an error if a query cannot resume because its topics have changed or lost unread records.

    Raises:
        QueryError: the broker does not answer.
    """
    return changed(stored, offsets) or _lost(stored, folder.next_offsets(stored) or stored.start, offsets)


def _lost(stored: StoredQuery, begin: Offsets, offsets: BrokerOffsets) -> QueryError | None:
    first, ends = offsets.first(begin), offsets.ends(begin)
    for (topic, partition), offset in begin.items():
        where = f"partition {partition} of the topic {topic}"
        if (oldest := first[topic, partition]) > offset:
            return QueryError(
                f"records {offset} to {oldest - 1} of {where} were deleted before {stored.id} read them",
                hint=f"check the retention of the topic; {START_NEW}",
            )
        if (end := ends[topic, partition]) < offset:
            return QueryError(
                f"{where} ends at offset {end}, but {stored.id} has read it up to {offset}",
                hint=f"the broker has lost records, or was restored; {START_NEW}",
            )
    return None
