"""`/metrics`: the figures of the server in the exposition format of Prometheus; docs/server.md documents the names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.queries.metrics import process_metrics, query_metrics, registry_of
from kestrel_sql.server.http.context import Context, context_of
from kestrel_sql.server.http.endpoint import endpoint
from kestrel_sql.server.service import State


@endpoint("GET", "/metrics", role="read")
async def metrics(http: HttpRequest) -> Response:
    """Figures for Prometheus.

    Example: GET /metrics -> 200
    """
    context = context_of(http)
    # The figures of a thousand queries take 0.1 s to be written.
    text = await asyncio.to_thread(generate_latest, registry_of(lambda: _collect(context)))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _collect(context: Context) -> Iterator[Metric]:
    figures = context.service.figures()
    running = context.service.state is State.RUNNING
    yield from process_metrics(up=running, started=context.started, bad_records=figures.bad_records)
    yield GaugeMetricFamily("kestrel_push_queries", "Push queries that run", figures.push_queries)
    yield GaugeMetricFamily("kestrel_push_clients", "Clients of push queries", figures.push_clients)
    yield CounterMetricFamily("kestrel_rows_pushed", "Rows given to clients of push queries", figures.rows_pushed)
    yield CounterMetricFamily("kestrel_clients_dropped", "Clients that were too slow", figures.dropped_clients)
    yield CounterMetricFamily("kestrel_pull_queries", "Pull queries that were answered", figures.pull_queries)
    yield CounterMetricFamily("kestrel_rows_inserted", "Rows of INSERT VALUES and streams", figures.rows_inserted)
    yield from query_metrics(figures.queries)
