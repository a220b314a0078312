"""A server from its settings: the engine, its service, the routes and the sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

from starlette.types import ASGIApp

from kestrel_sql.errors import CheckpointInUseError
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.queries.served import ServedEngine
from kestrel_sql.server.broker.backend import BrokerBackend, BrokerEngineSettings
from kestrel_sql.server.http.app import build_app
from kestrel_sql.server.http.bodies import Limits
from kestrel_sql.server.http.context import Context
from kestrel_sql.server.http.listen import Listener, Tls
from kestrel_sql.server.memory.backend import MemoryBackend
from kestrel_sql.server.security.open import SecuritySettings
from kestrel_sql.server.serving.backend import Backend
from kestrel_sql.server.serving.service import ServedService
from kestrel_sql.server.traces import Traces
from kestrel_sql.session.session import Session

_STANDBY_S = 0.5
"""Seconds between two looks at the lock of a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens, what it allows, and to whom."""

    host: str = "127.0.0.1"
    port: int = 8088
    tls: Tls | None = None
    security: SecuritySettings = field(default_factory=SecuritySettings)
    limits: Limits = field(default_factory=Limits)
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
        EngineError: the broker refuses, or the command topic cannot be carried out.
    """
    with ExitStack() as stack:
        _hold(CheckpointFolder(engine.run.folder), engine.say, stack)
        yield stack.enter_context(backend_server(lambda _: BrokerBackend(session, engine), settings))


def _hold(folder: CheckpointFolder, say: Callable[[str], None], stack: ExitStack) -> None:
    """Take the lock of a checkpoint; wait for a server that has it to end."""
    waits = False
    while True:
        try:
            stack.enter_context(folder.locked())
        except CheckpointInUseError as error:
            if not waits:
                say(f"{error.message}; waiting as its standby")
            waits = True
            time.sleep(_STANDBY_S)
        else:
            return


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
        return settings.traces.app(app)

    with (
        closing(Listener(make_app, settings.host, settings.port, settings.tls)) as listener,
        closing(ServedService(make, settings.traces)) as service,
    ):
        listener.start()
        yield Running(listener, service)
