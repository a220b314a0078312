"""A server from its settings: the engine, its service, the routes and the sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from threading import Event

import msgspec
from pyspark.sql import SparkSession
from starlette.types import ASGIApp

from kestrel_sql.errors import CheckpointInUseError, EngineError
from kestrel_sql.kafka.cluster.cluster import is_cluster
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.opening import checkpoint_errors, open_checkpoint
from kestrel_sql.kafka.run.run import StoreUri
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.server.broker.backend import BrokerBackend, BrokerEngineSettings
from kestrel_sql.server.http.app import build_app
from kestrel_sql.server.http.bodies import Limits
from kestrel_sql.server.http.context import Context
from kestrel_sql.server.http.listen import Listener, Tls
from kestrel_sql.server.http.server_name import CheckServerName
from kestrel_sql.server.memory.backend import MemoryBackend
from kestrel_sql.server.security.open import SecuritySettings
from kestrel_sql.server.serving.backend import Backend
from kestrel_sql.server.serving.service import Service
from kestrel_sql.server.traces import Traces
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.start import SparkStart, warm

_STANDBY_S = 0.5
"""Seconds between two looks at the lock of a checkpoint."""

READY = "this standby is ready to take over"
"""What a standby says once its Spark is warm."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, what it allows, and to whom."""

    host: str = "127.0.0.1"
    port: int = 8088
    tls: Tls | None = None
    security: SecuritySettings = msgspec.field(default_factory=SecuritySettings)
    limits: Limits = msgspec.field(default_factory=Limits)
    checks_server_name: bool = False
    """Whether a request over TLS must name the host that its connection was opened to."""
    push_queue_rows: int = 10_000
    traces: Traces = msgspec.field(default_factory=Traces)


class Running(msgspec.Struct, frozen=True):
    """A server that answers."""

    listener: Listener
    service: Service

    @property
    def url(self) -> str:
        """Where it answers, such as `http://127.0.0.1:8088`."""
        return self.listener.url


def memory_server(engine: ServedEngine, settings: ServerSettings) -> AbstractContextManager[Running]:
    """Serve an engine over topics in memory until the end of the block.

    Raises:
        OSError: nothing can listen on the address.
        EngineError: a file of the settings cannot be read.
    """
    return backend_server(lambda wake: MemoryBackend(engine, settings.push_queue_rows, wake), settings)


@contextmanager
def broker_server(
    session: Session, engine: BrokerEngineSettings, settings: ServerSettings, stop: Event
) -> Iterator[Running]:
    """Serve a session over the topics of a broker until the end of the block.

    While another server holds the checkpoint, this one is its standby: it waits until `stop` is set. `stop` is set if
    another has taken a checkpoint on a store meanwhile; then the block is to end.

    Raises:
        OSError: nothing can listen on the address.
        EngineError: the broker refuses, the command topic cannot be carried out, or the Spark of a standby has ended.
        CheckpointInUseError: another server has taken the checkpoint.
    """
    spark = SparkStart(partial(engine.open_spark, engine.run, engine.say))
    checkpoint = engine.run.checkpoint
    with ExitStack() as stack:
        stack.callback(spark.close, engine.close_spark)
        with checkpoint_errors(checkpoint), _held(engine, spark, stop) as folder, ExitStack() as inner:
            if not isinstance(checkpoint, StoreUri):
                # Spark ends before the lock of a folder is released; on a store it releases the lease.
                inner.push(stack.pop_all())
            yield inner.enter_context(backend_server(lambda _: BrokerBackend(session, engine, folder, spark), settings))


@contextmanager
def _held(engine: BrokerEngineSettings, spark: SparkStart, stop: Event) -> Iterator[CheckpointFolder]:
    """Hold the checkpoint; while another server has it, wait, with Spark ready to take over."""
    standby = _Standby(engine, spark)
    with ExitStack() as stack:
        stack.callback(standby.end)
        if isinstance(engine.run.checkpoint, StoreUri):
            spark.begin(standby.prepare)
        folder = open_checkpoint(engine.run.checkpoint, spark.session)
        while not standby.is_over.is_set():
            try:
                stack.enter_context(folder.locked(standby.say, stop))
                standby.end()
            except EngineError as error:
                if stop.is_set():
                    raise
                standby.stay(error)
                stop.wait(_STANDBY_S)
        yield folder


class _Standby(msgspec.Struct, frozen=True):
    """A server before it holds its checkpoint; it `knows` at some time whether it has to wait, until that `is_over`."""

    engine: BrokerEngineSettings
    spark: SparkStart
    knows: Event = msgspec.field(default_factory=Event)
    is_over: Event = msgspec.field(default_factory=Event)
    _said: list[str] = []
    _refused: Event = msgspec.field(default_factory=Event)

    def say(self, sentence: str) -> None:
        """Tell the user, once while it waits."""
        if self.is_over.is_set() or sentence not in self._said:
            self.engine.say(sentence)
            self._said.append(sentence)
        # Who has something to say waits for another.
        self.knows.set()

    def prepare(self, opened: SparkSession) -> None:
        """Let a session be ready when the waiting is over."""
        self.knows.wait()
        if self._has_executors or self.is_over.is_set():
            warm(opened)
        else:
            self.engine.rehearse(opened, self.is_over)

    def stay(self, error: EngineError) -> None:
        """Wait on after an attempt to take the checkpoint.

        Raises:
            EngineError: it is not in use but cannot be used, or Spark has ended.
        """
        if isinstance(error, CheckpointInUseError):
            self._refused.set()
        elif not self._refused.is_set():
            raise error
        # From then on it outlives a store that is away for a while.
        self.say(f"{error.message}; waiting as its standby")
        if not self._has_executors:
            self.spark.begin(self.prepare)
        if self.spark.is_ready():
            self.say(READY)

    def end(self) -> None:
        """Wait no more."""
        self.is_over.set()
        self.knows.set()

    @property
    def _has_executors(self) -> bool:
        """Whether Spark would keep executors of a cluster from the server that works."""
        return is_cluster(self.engine.run.master)


@contextmanager
def backend_server(make: Callable[[Callable[[], None]], Backend], settings: ServerSettings) -> Iterator[Running]:
    """Serve an engine until the end of the block; `make` gets what wakes its thread.

    Raises:
        OSError: nothing can listen on the address.
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
        closing(Service(make, settings.traces, listener.url.partition("//")[2])) as service,
    ):
        listener.start()
        yield Running(listener, service)
