"""The topics of a broker, for SHOW TOPICS, PRINT, DESCRIBE and ASSERT TOPIC."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.print_topic import format_lines, print_line, printed_source
from kestrel_sql.admin.view import EngineView
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import follow_topic, held_records, read_topics
from kestrel_sql.kafka.client.groups import group_assignments
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.topic_configs import shapes_of
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.topics.records import Record


class BrokerTopics(msgspec.Struct, frozen=True):
    """Asks the broker for its topics, without a cache; every method raises QueryError if the broker does not answer."""

    config: KafkaConfig
    offsets: BrokerOffsets

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""
        return tuple(self.offsets.names())

    def partitions_and_replicas(self, topics: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the numbers of partitions and replicas of the topics that exist."""
        return {name: (shape.partitions, shape.replicas) for name, shape in shapes_of(self.config, topics).items()}

    def assignments(self) -> list[dict[str, int]]:
        """Return how many partitions the members of each consumer group read, by topic."""
        return group_assignments(self.config)

    def retention_ms(self, topic: str) -> int | None:
        """Return how long (ms) a topic keeps records, -1 for ever; None if that is not known."""
        shape = shapes_of(self.config, [topic]).get(topic)
        return None if shape is None else shape.retention_ms

    def count(self, topic: str) -> None:
        """Return None: offsets do not count records, as control records have offsets and compaction leaves gaps."""

    def records(self, topic: str) -> tuple[Record, ...]:
        """Return the committed records of a topic."""
        return tuple(read_topics(self.config, [topic]).get(topic, ()))


def print_topic(
    statement: PrintTopic, view: EngineView, config: KafkaConfig, stopped: Callable[[], bool]
) -> Iterator[Answer]:
    """Answer PRINT, some records at a time.

    With FROM BEGINNING these are the records of the topic, otherwise those that arrive from now on, until LIMIT or
    `stopped`.

    Raises:
        StatementError: the topic does not exist.
        EngineError: the broker refuses.
    """
    source = printed_source(statement, view)
    yield Answer(lines=tuple(format_lines(source)))
    chunks = (
        held_records(config, statement.topic)
        if statement.from_beginning
        else follow_topic(config, statement.topic, stopped)
    )
    for shown in _taken(chunks, max(1, statement.interval or 1), statement.limit):
        if shown:
            yield Answer(lines=tuple(print_line(record, source, view) for record in shown))


def _taken(chunks: Iterable[list[Record]], interval: int, limit: int | None) -> Iterator[list[Record]]:
    """Every n-th record (`interval`), up to the limit."""
    seen = taken = 0
    for chunk in chain([[]], chunks):
        shown = chunk[-seen % interval :: interval]
        seen += len(chunk)
        shown = shown if limit is None else shown[: limit - taken]
        taken += len(shown)
        yield shown
        if limit is not None and taken >= limit:
            return
