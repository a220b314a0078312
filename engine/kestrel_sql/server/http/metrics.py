"""`/metrics`: the figures of the server in the exposition format of Prometheus; docs/server.md documents the names."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.server.http.context import Context, context_of, principal_of
from kestrel_sql.server.service import Figures, State


async def metrics(http: HttpRequest) -> Response:
    """Answer `GET /metrics`."""
    context = context_of(http)
    context.access.require(principal_of(http), "read")
    registry = CollectorRegistry()
    registry.register(_Collector(context))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _Collector(Collector):
    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now."""
        figures = self._context.service.figures()
        running = self._context.service.state is State.RUNNING
        yield GaugeMetricFamily("kestrel_up", "1 when Spark runs and queries are processed", float(running))
        yield GaugeMetricFamily("kestrel_uptime_seconds", "Time since the start", time.time() - self._context.started)
        yield GaugeMetricFamily("kestrel_threads", "Threads of the server's process", threading.active_count())
        yield GaugeMetricFamily("kestrel_push_queries", "Push queries that run", figures.push_queries)
        yield GaugeMetricFamily("kestrel_push_clients", "Clients of push queries", figures.push_clients)
        yield CounterMetricFamily("kestrel_rows_pushed", "Rows given to clients of push queries", figures.rows_pushed)
        yield CounterMetricFamily("kestrel_clients_dropped", "Clients that were too slow", figures.dropped_clients)
        yield CounterMetricFamily("kestrel_pull_queries", "Pull queries that were answered", figures.pull_queries)
        yield CounterMetricFamily("kestrel_rows_inserted", "Rows of INSERT VALUES and streams", figures.rows_inserted)
        yield CounterMetricFamily("kestrel_bad_records", "Records that some query cannot process", figures.bad_records)
        yield from _of_queries(figures)


def _of_queries(figures: Figures) -> Iterator[Metric]:
    rows_in = CounterMetricFamily("kestrel_query_rows_in", "Records that a query has read", labels=["query"])
    rows_out = CounterMetricFamily("kestrel_query_rows_out", "Records that a query has written", labels=["query"])
    lag = GaugeMetricFamily("kestrel_query_lag_records", "Records that a query has still to read", labels=["query"])
    bad = CounterMetricFamily("kestrel_query_bad_records", "Records that a query cannot process", labels=["query"])
    state = GaugeMetricFamily("kestrel_query_state", "1 for the state that a query is in", labels=["query", "state"])
    for query in figures.queries:
        rows_in.add_metric([query.id], query.rows_in)
        rows_out.add_metric([query.id], query.rows_out)
        lag.add_metric([query.id], query.lag)
        bad.add_metric([query.id], query.bad_records)
        state.add_metric([query.id, query.state], 1)
    yield from (rows_in, rows_out, lag, bad, state)
