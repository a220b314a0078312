"""Counts the records that queries cannot read, compute or write, and those that come too late (rules E12.1, E12.2.1).

Names the first of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from kestrel_sql.queries.log_context import about
from kestrel_sql.spark.stages.log_entries import DESERIALIZATION, FATAL, LATE, PROCESSING, late_count
from kestrel_sql.topics.records import LogEntry

TRANSIENT = "push and pull queries"
"""Their name in the counts, which they share."""

_VERBS = {DESERIALIZATION: "read", PROCESSING: "computed"}


@dataclass(slots=True)
class BadRecords:
    """Takes the entries of the processing log; any thread may hand them over.

    Attributes:
        say: gets the first entry of each kind: of a type of entry and a step, or of a type and a topic if the query is
            not persistent.
        is_persistent: whether a query has a count of its own; the others come and go without end, and share one.
        counts: the number of bad records of each query.
        late: the number of records that came too late for each query.
        first_late: the sentence about the first of these.
        stopped: the queries that an error has stopped.
    """

    say: Callable[[str], None]
    is_persistent: Callable[[str], bool] = lambda _: True
    counts: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    first_late: dict[str, str] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    _said: set[tuple[int, str]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def note(self, entries: Sequence[LogEntry]) -> None:
        """Count the records of entries, each once for each query.

        An entry about the end of a query is no bad record.
        """
        found: dict[str, set[object]] = {}
        fresh = []
        with self._lock:
            for at, entry in enumerate(entries):
                if entry.kind == FATAL:
                    continue
                query = query_of(entry.logger)
                if entry.kind == LATE:
                    self.late[self._name(query)] += late_count(entry)
                    self.first_late.setdefault(self._name(query), sentence_of(entry))
                else:
                    position = at if entry.topic is None else (entry.topic, entry.partition, entry.offset)
                    found.setdefault(query, set()).add(position)
                kind = entry.kind, entry.logger if self.is_persistent(query) else f"{TRANSIENT} {entry.topic}"
                if kind not in self._said:
                    self._said.add(kind)
                    fresh.append(entry)
            for query, positions in found.items():
                self.counts[self._name(query)] += len(positions)
        for entry in fresh:
            query, topic = query_of(entry.logger), entry.topic
            # The task that reads a record is that of its partition.
            task = entry.partition
            with about(query=query, task=task, topic=topic, partition=entry.partition, offset=entry.offset):
                self.say(sentence_of(entry, " (more of this kind are only counted)"))

    def _name(self, query: str) -> str:
        """The name of a query in the counts."""
        return query if self.is_persistent(query) else TRANSIENT

    def note_errors(self, errors: Mapping[str, str]) -> None:
        """Say once of each query in `errors` what has stopped it."""
        for query, error in errors.items():
            if query not in self.stopped:
                self.stopped.add(query)
                self.say(f"{error}; the query has stopped")

    @property
    def total(self) -> int:
        """The number of bad records of all queries."""
        return self.counts.total()

    def summary(self) -> str:
        """The totals in a sentence for each kind, empty if there are none."""
        kinds = ((self.counts, "bad record"), (self.late, "late record"))
        sentences = [_total(counts, what) for counts, what in kinds if counts.total()]
        return "; ".join([*sentences, *(self.first_late[query] for query in sorted(self.first_late))])


def _total(counts: Counter[str], what: str) -> str:
    by_query = ", ".join(f"{query} {count}" for query, count in sorted(counts.items()))
    return f"{count_of(counts.total(), what)}: {by_query}"


def count_of(number: int, what: str) -> str:
    """A number with its noun: `1 record`, `2 records`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def query_of(logger: str) -> str:
    """The query of a logger `processing.<query>.…`."""
    return [*logger.split("."), logger][1]


def sentence_of(entry: LogEntry, remark: str = "") -> str:
    """Return an entry as a sentence: the query, the record with its position, and the error."""
    record = (
        "a record"
        if entry.topic is None
        else f"the record at {entry.topic}, partition {entry.partition}, offset {entry.offset},"
    )
    flaw = "comes too late" if entry.kind == LATE else f"cannot be {_VERBS.get(entry.kind, 'written')}"
    return f"{query_of(entry.logger)}: {record} {flaw}{remark}: {entry.text}"
