"""A server from its settings: the engine, its service, the routes and the sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event

from starlette.types import ASGIApp

from kestrel_sql.errors import CheckpointInUseError
from kestrel_sql.kafka.cluster.cluster import is_cluster
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.queries.served import ServedEngine
from kestrel_sql.server.broker.backend import BrokerBackend, BrokerEngineSettings
from kestrel_sql.server.http.app import build_app
from kestrel_sql.server.http.bodies import Limits
from kestrel_sql.server.http.context import Context
from kestrel_sql.server.http.listen import Listener, Tls
from kestrel_sql.server.http.server_name import CheckServerName
from kestrel_sql.server.memory.backend import MemoryBackend
from kestrel_sql.server.security.open import SecuritySettings
from kestrel_sql.server.serving.backend import Backend
from kestrel_sql.server.serving.service import ServedService
from kestrel_sql.server.traces import Traces
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.start import SparkStart

_STANDBY_S = 0.5
"""Seconds between two looks at the lock of a checkpoint."""

READY = "this standby is ready to take over"
"""What a standby says once its Spark is warm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens, what it allows, and to whom."""

    host: str = "127.0.0.1"
    port: int = 8088
    tls: Tls | None = None
    security: SecuritySettings = field(default_factory=SecuritySettings)
    limits: Limits = field(default_factory=Limits)
    checks_server_name: bool = False
    """Whether a request over TLS must name the host that its connection was opened to."""
    push_queue_rows: int = 10_000
    traces: Traces = field(default_factory=Traces)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    listener: Listener
    service: ServedService

    @property
    def url(self) -> str:
        """Where it answers, such as `http://127.0.0.1:8088`."""
        return self.listener.url


@contextmanager
def memory_server(engine: ServedEngine, settings: ServerSettings) -> Iterator[Running]:
    """Serve an engine over topics in memory until the end of the block.

    Raises:
        OSError: the address cannot be listened on.
        EngineError: a file of the settings cannot be read.
    """
    with backend_server(lambda wake: MemoryBackend(engine, settings.push_queue_rows, wake), settings) as running:
        yield running


@contextmanager
def broker_server(session: Session, engine: BrokerEngineSettings, settings: ServerSettings) -> Iterator[Running]:
    """Serve a session over the topics of a broker until the end of the block.

    While another server holds the checkpoint, this one is its standby: it waits.

    Raises:
        OSError: the address cannot be listened on.
        EngineError: the broker refuses, the command topic cannot be carried out, or the Spark of a standby has ended.
    """
    spark = SparkStart(partial(engine.open_spark, engine.run, engine.say))
    with ExitStack() as stack:
        stack.callback(spark.close, engine.close_spark)
        # Spark ends before the lock is released.
        with (
            _held(engine, spark),
            stack.pop_all(),
            backend_server(lambda _: BrokerBackend(session, engine, spark), settings) as running,
        ):
            yield running


@contextmanager
def _held(engine: BrokerEngineSettings, spark: SparkStart) -> Iterator[None]:
    """Hold the lock of the checkpoint; while another server has it, wait, with Spark ready to take over.

    Executors of a cluster would be kept from the server that works, so that there Spark starts later.
    """
    folder, is_held = CheckpointFolder(engine.run.folder), Event()
    with ExitStack() as stack:
        said: list[str] = []
        while not is_held.is_set():
            try:
                stack.enter_context(folder.locked())
                is_held.set()
            except CheckpointInUseError as error:
                if not is_cluster(engine.run.master):
                    spark.begin(lambda opened: engine.rehearse(opened, is_held))
                for sentence in (f"{error.message}; waiting as its standby", *([READY] if spark.is_ready() else [])):
                    if sentence not in said:
                        engine.say(sentence)
                        said.append(sentence)
                time.sleep(_STANDBY_S)
        yield


@contextmanager
def backend_server(make: Callable[[Callable[[], None]], Backend], settings: ServerSettings) -> Iterator[Running]:
    """Serve an engine until the end of the block; `make` gets what wakes its thread.

    Raises:
        OSError: the address cannot be listened on.
        EngineError: a file of the settings cannot be read.
    """
    authenticate, access = settings.security.authenticate(), settings.security.access()

    def make_app() -> ASGIApp:
        app = build_app(
            Context(service, access, settings.limits),
            authenticate=authenticate,
            origins=settings.security.origins,
            local_only=settings.host in ("127.0.0.1", "::1", "localhost"),
        )
        return settings.traces.app(CheckServerName(app) if settings.checks_server_name else app)

    with (
        closing(Listener(make_app, settings.host, settings.port, settings.tls)) as listener,
        closing(ServedService(make, settings.traces)) as service,
    ):
        listener.start()
        yield Running(listener, service)
