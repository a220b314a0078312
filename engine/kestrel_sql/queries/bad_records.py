"""Counts the records that queries cannot read, compute or write, and those that come too late (rules E12.1, E12.2.1).

Names the first of each kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from threading import Lock

import msgspec

from kestrel_sql.dataflow.log_entries import DESERIALIZATION, FATAL, LATE, PROCESSING, late_count
from kestrel_sql.queries.log_context import about
from kestrel_sql.topics.records import LogEntry

TRANSIENT = "push and pull queries"
"""Their name in the counts, which they share."""

_FIRST = 1000
"""From how many records on it is judged how many of them are bad."""

_VERBS = {DESERIALIZATION: "read", PROCESSING: "computed"}


class BadLimit(msgspec.Struct, frozen=True):
    """The most bad records of a run, or the most of a hundred that a query has read (rule E12.3.2)."""

    most: Decimal
    is_share: bool

    @staticmethod
    def of(text: str) -> BadLimit:
        """Return the limit `N` or `P%`.

        Raises:
            ValueError: it is none.
        """
        number = text.removesuffix("%")
        if not re.fullmatch(r"\d{1,12}(\.\d{1,6})?" if number != text else r"\d{1,12}", number, re.ASCII):
            raise ValueError(f"expected N or P%, got {text!r}")
        return BadLimit(Decimal(number), is_share=number != text)

    def __str__(self) -> str:
        """The limit as it is written."""
        return f"{self.most}%" if self.is_share else str(self.most)

    def flaw(self, query: str, bad: int, read: int, total: int) -> str | None:
        """Say what exceeds the limit: `bad` of the `read` records of a query, or the `total` of the run."""
        if not self.is_share:
            return f"{count_of(total, 'bad record')}, and --max-bad allows {self}" if total > self.most else None
        if 100 * bad <= self.most * read:
            return None
        return f"{query}: {bad} of {count_of(read, 'record')} are bad, and --max-bad allows {self}"


class BadRecords(msgspec.Struct):
    """Takes the entries of the processing log; any thread may hand them over.

    Attributes:
        say: gets the first entry of each kind: of a type of entry and a step, or of a type and a topic if the query is
            not persistent.
        is_persistent: whether a query has a count of its own; the others come and go without end, and share one.
        counts: the number of bad records of each query.
        late: the number of records that came too late for each query.
        first_late: the sentence about the first of these.
        limit: what ends the run.
        stopped: the queries that an error has stopped.
    """

    say: Callable[[str], None]
    is_persistent: Callable[[str], bool] = lambda _: True
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    late: Counter[str] = msgspec.field(default_factory=Counter)
    first_late: dict[str, str] = {}
    limit: BadLimit | None = None
    stopped: set[str] = set()
    _said: set[tuple[int, str]] = set()
    _judged: set[str] = set()
    _lock: Lock = msgspec.field(default_factory=Lock)

    def note(self, entries: Sequence[LogEntry]) -> None:
        """Count the records of entries, each once for each query.

        An entry about the end of a query is no bad record.
        """
        fresh = []
        with self._lock:
            for entry in (each for each in entries if each.kind != FATAL):
                query = query_of(entry.logger)
                if entry.kind == LATE:
                    self.late[self._name(query)] += late_count(entry)
                    self.first_late.setdefault(self._name(query), sentence_of(entry))
                kind = entry.kind, entry.logger if self.is_persistent(query) else f"{TRANSIENT} {entry.topic}"
                if kind not in self._said:
                    self._said.add(kind)
                    fresh.append(entry)
            self.counts += self._counted(entries)
        for entry in fresh:
            query, topic = query_of(entry.logger), entry.topic
            # The task that reads a record is that of its partition.
            task = entry.partition
            with about(query=query, task=task, topic=topic, partition=entry.partition, offset=entry.offset):
                self.say(sentence_of(entry, " (more of this kind are only counted)"))

    def _name(self, query: str) -> str:
        """The name of a query in the counts."""
        return query if self.is_persistent(query) else TRANSIENT

    def _counted(self, entries: Sequence[LogEntry]) -> Counter[str]:
        found: dict[str, set[object]] = {}
        for at, entry in enumerate(entries):
            if entry.kind not in (FATAL, LATE):
                position = at if entry.topic is None else (entry.topic, entry.partition, entry.offset)
                found.setdefault(query_of(entry.logger), set()).add(position)
        counts: Counter[str] = Counter()
        for query, positions in found.items():
            counts[self._name(query)] += len(positions)
        return counts

    def flaw(self, read: Mapping[str, int], more: Sequence[LogEntry] = ()) -> str | None:
        """Say what exceeds the limit, given the records that queries have `read` and `more` entries; None if nothing.

        A share is judged from the first thousand records on, or at the end, without `more`.
        """
        if self.limit is None:
            return None
        with self._lock:
            counts = self.counts + self._counted(more)
        for query, records in read.items():
            if self.limit.is_share and more and records < _FIRST:
                continue
            flaw = self.limit.flaw(query, counts[query], records, counts.total())
            if flaw is not None:
                return flaw
        return None

    def judge(self, query: str, read: int, bad: int, *, is_last: bool = False) -> None:
        """Say once that all of the first thousand records, or all until the end, are bad (rule E12.1.1)."""
        if query in self._judged or read < (1 if is_last else _FIRST):
            return
        self._judged.add(query)
        if bad >= read:
            with about(query=query):
                self.say(
                    f"WARNING: {query}: ALL of the first {count_of(read, 'record')} are bad: their format, schema or"
                    " schema registry is probably another"
                )

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
