"""Spans of requests and statements."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kestrel_sql.server.traces import Traces
from tests.engine.server.servers import http, sparkless_server

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TEXT = """
    CREATE STREAM s (id INT KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
    SET 'ksql.functions.f.secret'='hidden';
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_statements_have_spans_below_that_of_their_request() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with sparkless_server(traces=Traces(provider)) as running:
        http.post(f"{running.url}/ksql", json={"ksql": TEXT}, headers={"traceparent": PARENT})
        http.post(f"{running.url}/query-stream", json={"sql": "SELECT * FROM nothing;"})
        http.get(f"{running.url}/metrics")
    spans = exporter.get_finished_spans()
    by_name = {span.name: span for span in spans}
    assert len(by_name) == len(spans)
    request = by_name["POST /ksql"]
    assert request.parent is not None
    assert format(request.parent.span_id, "x") == PARENT.split("-")[2]
    for name in ("CREATE", "SET"):
        parent = by_name[name].parent
        assert parent is not None
        assert parent.span_id == request.context.span_id
    assert "hidden" not in str(by_name["SET"].attributes)
    assert not by_name["SELECT"].status.is_ok
    assert not [name for name in by_name if "metrics" in name]
