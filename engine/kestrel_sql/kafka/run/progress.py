"""The progress of queries: rows in and out, rows per second, lag behind the broker, rows of state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import asdict

from kestrel_sql.kafka.client.offsets import from_members
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.source.batch_counts import Report, records_of
from kestrel_sql.queries.bad_records import count_of


class QueryState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a query to show (rules E12.7). Unknown values are None.

    Attributes:
        query: its id.
        batch: the number of the last completed batch, -1 before the first.
        batch_ms: how long that batch took, from its trigger to its commit (ms).
        rows_in: the records read since the process started.
        rows_out: the records written since then.
        rows_per_second: the records read in a second, over the last ten seconds.
        lag: the records still to read, by topic; None before the first batch.
        state_rows: the rows of state after the last completed batch, as `kestrel state ls` counts them.
        bad_records: the records that could not be read, computed or written since the process started.
        late_records: the records that came too late for a window or a join since the process started.
        first_late: the sentence about the first of these.
        error: why the query failed, empty unless it did.
    """

    query: str
    batch: int
    rows_in: int
    rows_out: int
    rows_per_second: float
    lag: Mapping[str, int] | None
    state_rows: int | None
    batch_ms: int | None = None
    bad_records: int = 0
    late_records: int = 0
    first_late: str = ""
    error: str = ""

    def to_json(self, moment: float) -> str:
        """Return a line of `--json-progress`; `moment` is in seconds since the epoch."""
        return json.dumps({"time": int(moment * 1000), **asdict(self)})


_SECONDS = 10.0
"""The period (s) of the rate."""


class Rate(msgspec.Struct):
    """Rows per second over the last period."""

    _seen: list[tuple[float, int]] = []

    def add(self, moment: float, rows: int) -> None:
        """Add rows that arrived at a moment (s)."""
        self._seen.append((moment, rows))

    def per_second(self, moment: float) -> float:
        """Return the rate at a moment (s)."""
        self._seen = [(at, rows) for at, rows in self._seen if at > moment - _SECONDS]
        return round(sum(rows for _, rows in self._seen) / _SECONDS, 1)


class QueryProgress(msgspec.Struct):
    """Collects the reports of Spark and the sink on a query since this process started.

    `start` are the offsets where its first batch begins.
    """

    query: str
    start: Mapping[Position, int] = {}
    rows_in: int = 0
    rows_out: int = 0
    batch: int = -1
    batch_ms: int | None = None
    state_rows: int = 0
    bad_records: int = 0
    late_records: int = 0
    first_late: str = ""
    offsets: dict[Position, int] = {}
    lag: dict[str, int] | None = None
    error: str = ""
    _rate: Rate = msgspec.field(default_factory=Rate)
    _read: dict[int, int] = {}

    def wrote(self, records: int) -> None:
        """Add records that the sink wrote."""
        self.rows_out += records

    def read(self, batch: int, records: int) -> None:
        """Say how many records a batch reads, if Spark does not read them itself and cannot report it."""
        self._read[batch] = records

    def add(self, reports: Sequence[Report], now: Callable[[], float] = time.monotonic) -> bool:
        """Add Spark's progress reports, some of which may be known; return whether a batch is new.

        While a query idles, Spark reports the number of the next batch. Only a report with the duration of `addBatch`
        is about a completed batch.
        """
        done = [report for report in reports if "addBatch" in report["durationMs"]]
        fresh = [report for report in done if int(report["batchId"]) > self.batch]
        for report in fresh:
            self.batch = int(report["batchId"])
            read = self._read.pop(self.batch, None)
            rows = self._once(records_of(report), report) if read is None else read
            self.batch_ms = report["durationMs"].get("triggerExecution")
            self.rows_in += rows
            self._rate.add(now(), rows)
            for source in report.get("sources", ()):
                self.offsets.update(_offsets(source.get("endOffset")))
        return bool(fresh)

    def _once(self, read: int, report: Report) -> int:
        """Return how many records a batch has at most by its offsets, if Spark says that it `read` more.

        It counts those twice that it reads again in a batch, because an executor was lost with its results.
        """
        most = 0
        for source in report.get("sources", ()):
            start = _offsets(source.get("startOffset")) or self.start
            for position, end in _offsets(source.get("endOffset")).items():
                if position not in start:
                    return read
                most += end - start[position]
        return min(read, most) if most else read

    def measure_lag(self, ends: Mapping[Position, int]) -> None:
        """Compute the lag from the broker's end offsets."""
        lag: dict[str, int] = {}
        for position, offset in self.offsets.items():
            if position in ends:
                lag[position[0]] = lag.get(position[0], 0) + max(0, ends[position] - offset)
        self.lag = lag or None

    def state(self, now: Callable[[], float] = time.monotonic) -> QueryState:
        """Return the current state."""
        return QueryState(
            query=self.query,
            batch=self.batch,
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            rows_per_second=self._rate.per_second(now()),
            lag=self.lag,
            state_rows=self.state_rows,
            batch_ms=self.batch_ms,
            bad_records=self.bad_records,
            late_records=self.late_records,
            first_late=self.first_late,
            error=self.error,
        )


def summary(states: Sequence[QueryState]) -> list[str]:
    """Say what queries did since the process started: a sentence for each, and the sum of several (rules E12.8)."""
    lines = [f"{state.query}: {_done(*(getattr(state, name) for name in _COUNTS))}" for state in states]
    if len(states) > 1:
        sums = (sum(getattr(state, name) for state in states) for name in _COUNTS)
        lines.append(f"{len(states)} queries: {_done(*sums)}")
    return lines


_COUNTS = ("rows_in", "rows_out", "bad_records", "late_records")


def _done(read: int, written: int, bad: int, late: int) -> str:
    return f"{count_of(read, 'record')} read, {written} written, {bad} bad{f', {late} late' if late else ''}"


def _offsets(found: object) -> dict[Position, int]:
    members = json.loads(found) if isinstance(found, str) else found
    return from_members(members) if isinstance(members, Mapping) else {}
