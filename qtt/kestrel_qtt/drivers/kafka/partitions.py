"""The topics of a case on the broker: their names, and their numbers of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.topics.records import Record


@dataclass(slots=True)
class OwnTopics:
    """The topics of one case.

    Their names on the broker, by their names in the case, and how many partitions each has.
    """

    prefix: str
    names: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(run: CaseRun, prefix: str) -> OwnTopics:
        """The topics that a planned case gives records for, reads and writes."""
        topics = OwnTopics(prefix)
        fed = [record.topic for record in given_records(run)]
        for topic in (*fed, *(source.topic for source in run.session.catalog.sources.values())):
            topics.add(topic, run.partitions.count(topic))
        return topics

    def add(self, topic: str, partitions: int) -> None:
        """Give a topic of the case a name and a number of partitions, if it has none yet."""
        if topic not in self.names:
            self.names[topic] = f"{self.prefix}-{len(self.names)}"
            self.counts[topic] = partitions

    def on_broker(self) -> dict[str, int]:
        """The number of partitions of each topic, by its name on the broker."""
        return {name: self.counts[topic] for topic, name in self.names.items()}

    def counts_read(self, run: CaseRun, query: PersistentQuery) -> Iterator[int]:
        """The partitions of the topics that a query reads, the left-most first."""
        return (self.counts.get(topic, 1) for topic in run.topics_read(query))


def given_records(run: CaseRun) -> Iterator[Record]:
    """Return the inputs of a case, then the records of its INSERT statements."""
    yield from run.inputs
    for records in run.topics.values():
        yield from records


def misplaced(run: CaseRun, records: Iterable[Record]) -> Record | None:
    """Return the first record of a query that is not in the partition that Java's producer would choose."""
    given = {record.topic for record in run.case.inputs}
    return next(
        (
            record
            for record in records
            if record.key is not None
            and record.topic not in given
            and record.partition != run.partitions.of_output(record)
        ),
        None,
    )
