"""Metrics in the exposition format of Prometheus: those that `kestrel run` and the server have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry


class QueryCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted of a query since its process started; `lag` in records.

    `lag`, `batch` and `state_rows` are None where they are unknown.
    """

    id: str
    state: str
    rows_in: int
    rows_out: int
    bad_records: int
    late_records: int
    lag: int | None
    batch: int | None = None
    state_rows: int | None = None


def process_metrics(*, up: bool, started: float, bad_records: int) -> Iterator[Metric]:
    """Give the metrics of a process; `started` is in seconds since the epoch."""
    yield GaugeMetricFamily("kestrel_up", "1 when Spark runs and queries are processed", float(up))
    yield GaugeMetricFamily("kestrel_uptime_seconds", "Time since the start", time.time() - started)
    yield GaugeMetricFamily("kestrel_threads", "Threads of the process", threading.active_count())
    yield CounterMetricFamily("kestrel_bad_records", "Records that some query cannot process", bad_records)


def query_metrics(queries: Iterable[QueryCounts]) -> Iterator[Metric]:
    """Give the metrics of persistent queries, with the id in the label `query`."""
    rows_in = CounterMetricFamily("kestrel_query_rows_in", "Records that a query has read", labels=["query"])
    rows_out = CounterMetricFamily("kestrel_query_rows_out", "Records that a query has written", labels=["query"])
    lag = GaugeMetricFamily("kestrel_query_lag_records", "Records that a query has still to read", labels=["query"])
    bad = CounterMetricFamily("kestrel_query_bad_records", "Records that a query cannot process", labels=["query"])
    late = CounterMetricFamily("kestrel_query_late_records", "Records too late for a query", labels=["query"])
    state = GaugeMetricFamily("kestrel_query_state", "1 for the state that a query is in", labels=["query", "state"])
    batch = GaugeMetricFamily("kestrel_query_batch", "The last batch that a query has completed", labels=["query"])
    kept = GaugeMetricFamily("kestrel_query_state_rows", "Rows of state that a query keeps", labels=["query"])
    for query in queries:
        rows_in.add_metric([query.id], query.rows_in)
        rows_out.add_metric([query.id], query.rows_out)
        bad.add_metric([query.id], query.bad_records)
        late.add_metric([query.id], query.late_records)
        state.add_metric([query.id, query.state], 1)
        for family, value in ((lag, query.lag), (batch, query.batch), (kept, query.state_rows)):
            if value is not None:
                family.add_metric([query.id], value)
    yield from (rows_in, rows_out, lag, bad, late, state, batch, kept)


class _Collector(Collector):
    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now."""
        return self._collect()


def registry_of(collect: Callable[[], Iterator[Metric]]) -> CollectorRegistry:
    """Return a registry that calls `collect` for each scrape."""
    registry = CollectorRegistry()
    registry.register(_Collector(collect))
    return registry
