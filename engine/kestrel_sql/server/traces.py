"""OpenTelemetry traces: a span for each request, and below it one for each statement (ADR 32)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec
from starlette.types import ASGIApp

from kestrel_sql.errors import EngineError
from kestrel_sql.server.secrets import without_secrets

_LONGEST_NAME = 40


class Traces(msgspec.Struct, frozen=True):
    """Where spans go; there are none without a provider, a `TracerProvider` of OpenTelemetry's SDK."""

    provider: Any = None

    def app(self, app: ASGIApp) -> ASGIApp:
        """Give each request of an application a span, whose parent a `traceparent` header may name."""
        if self.provider is None:
            return app
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

        traced: ASGIApp = OpenTelemetryMiddleware(
            app, tracer_provider=self.provider, exclude_spans=["receive", "send"], excluded_urls="/chc,/metrics,/ui"
        )
        return traced

    def statement(self, text: str) -> AbstractContextManager[object]:
        """Give a statement a span until the end of the block; its name is the statement's first word."""
        if self.provider is None:
            return nullcontext()
        first = (text.split(maxsplit=1) or [""])[0].upper()[:_LONGEST_NAME]
        tracer = self.provider.get_tracer("kestrel_sql")
        span: AbstractContextManager[object] = tracer.start_as_current_span(
            first, attributes={"db.system.name": "ksqldb", "db.query.text": without_secrets(text)}
        )
        return span


@contextmanager
def open_traces(service_id: str) -> Iterator[Traces]:
    """Send spans by OTLP over HTTP until the end of the block; OpenTelemetry's environment variables say where to.

    Raises:
        EngineError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise EngineError("--traces needs OpenTelemetry", hint="pip install 'kestrel-sql[otel]'") from error
    name = os.environ.get("OTEL_SERVICE_NAME", "kestrel")
    provider = TracerProvider(resource=Resource.create({"service.name": name, "kestrel.service.id": service_id}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Traces(provider)
    finally:
        provider.shutdown()
