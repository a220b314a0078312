"""The progress of queries: rows in and out, rows per second, lag behind the broker, rows of state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kestrel_sql.kafka.client.offsets import from_members
from kestrel_sql.kafka.client.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """The state of a query to show; `lag` is in records by topic, None before the first batch. Unknown values are None."""

    query: str
    batch: int
    rows_in: int
    rows_out: int
    rows_per_second: float
    lag: Mapping[str, int] | None
    state_rows: int | None
    error: str = ""

    def to_json(self, moment: float) -> str:
        """Return a line of `--json-progress`; `moment` is in seconds since the epoch."""
        return json.dumps({"time": int(moment * 1000), **asdict(self)})


_SECONDS = 10.0
"""The period (s) of the rate."""


@dataclass(slots=True)
class Rate:
    """Rows per second over the last period."""

    _seen: list[tuple[float, int]] = field(default_factory=list)

    def add(self, moment: float, rows: int) -> None:
        """Add rows that arrived at a moment (s)."""
        self._seen.append((moment, rows))

    def per_second(self, moment: float) -> float:
        """Return the rate at a moment (s)."""
        self._seen = [(at, rows) for at, rows in self._seen if at > moment - _SECONDS]
        return round(sum(rows for _, rows in self._seen) / _SECONDS, 1)


@dataclass(slots=True)
class QueryProgress:
    """Collects the reports of Spark and the sink on a query since this process started."""

    query: str
    rows_in: int = 0
    rows_out: int = 0
    batch: int = -1
    state_rows: int = 0
    offsets: dict[Position, int] = field(default_factory=dict)
    lag: dict[str, int] | None = None
    error: str = ""
    _rate: Rate = field(default_factory=Rate)

    def wrote(self, records: int) -> None:
        """Add records that the sink wrote."""
        self.rows_out += records

    def add(self, reports: Sequence[Mapping[str, Any]], now: Callable[[], float] = time.monotonic) -> bool:
        """Add Spark's progress reports, some of which may be known; return whether a batch is new."""
        fresh = [report for report in reports if int(report["batchId"]) > self.batch]
        for report in fresh:
            rows = int(report.get("numInputRows") or 0)
            self.batch = int(report["batchId"])
            self.rows_in += rows
            self._rate.add(now(), rows)
            for source in report.get("sources", ()):
                self.offsets.update(_offsets(source.get("endOffset")))
            self.state_rows = sum(
                int(operator.get("numRowsTotal") or 0) for operator in report.get("stateOperators", ())
            )
        return bool(fresh)

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
            error=self.error,
        )


def _offsets(found: Any) -> dict[Position, int]:
    members = json.loads(found) if isinstance(found, str) else found
    return from_members(members) if isinstance(members, Mapping) else {}
