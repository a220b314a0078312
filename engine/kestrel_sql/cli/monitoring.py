"""A run seen from outside: metrics for Prometheus, a health file for orchestrators, and messages as JSON lines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import asdict
from prometheus_client import start_http_server
from prometheus_client.core import Metric
from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.progress import Board
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.run.progress import QueryState
from kestrel_sql.queries.log_context import fields_now
from kestrel_sql.queries.metrics import QueryCounts, process_metrics, query_metrics, registry_of

_LEVELS = {"red": "error", "yellow": "warning"}
_HEALTH_S = 1.0
"""The least time between two writes of the health file while its content is the same but for the time."""


class Phase(StrEnum):
    """What a run does, as its health file says it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


class Monitor(msgspec.Struct):
    """Takes the states of queries and shows them outside; `health` is the file, if one is wanted."""

    health: Path | None = None
    phase: Phase = Phase.STARTING
    _states: Sequence[QueryState] = ()
    _started: float = msgspec.field(default_factory=time.time)
    _written: tuple[float, object] = (0.0, None)

    def show(self, states: Sequence[QueryState]) -> None:
        """Take new states in; the queries run from the first ones on."""
        self._states = [*states]
        self._enter(Phase.RUNNING)

    def end(self, *, well: bool) -> None:
        """Say how the run has ended."""
        self._enter(Phase.STOPPED if well else Phase.FAILED)

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now; any thread may ask."""
        states = self._states
        bad = sum(state.bad_records for state in states)
        yield from process_metrics(up=self.phase is Phase.RUNNING, started=self._started, bad_records=bad)
        yield from query_metrics(map(_counts, states))

    @contextmanager
    def open(self, address: tuple[str, int] | None) -> Iterator[None]:
        """Write the health file, and answer Prometheus at an address, until the end of the block.

        Raises:
            EngineError: nothing can listen on the address, or the file cannot be written.
        """
        self._enter(Phase.STARTING)
        if address is None:
            yield
            return
        host, port = address
        try:
            server, thread = start_http_server(port, host, registry_of(self.collect))
        except OSError as error:
            raise EngineError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="--metrics names another address for Prometheus",
            ) from error
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        queries = {state.query: _state_of(state) for state in self._states}
        now, (before, content) = time.time(), self._written
        if self.health is None or (content == (phase, queries) and now - before < _HEALTH_S):
            return
        self._written = (now, (phase, queries))
        document = {"time": int(now * 1000), "state": phase, "process": os.getpid(), "queries": queries}
        fresh = self.health.with_name(f".{self.health.name}.{os.getpid()}")
        try:
            fresh.write_text(json.dumps(document) + "\n", encoding="utf-8")
            fresh.replace(self.health)
        except OSError as error:
            raise EngineError(f"the health file {self.health} cannot be written: {error.strerror}") from error


def _counts(state: QueryState) -> QueryCounts:
    return QueryCounts(
        id=state.query,
        state=_state_of(state),
        rows_in=state.rows_in,
        rows_out=state.rows_out,
        bad_records=state.bad_records,
        late_records=state.late_records,
        lag=None if state.lag is None else sum(state.lag.values()),
        batch=None if state.batch < 0 else state.batch,
        state_rows=state.state_rows,
    )


def _state_of(state: QueryState) -> str:
    return "ERROR" if state.error else "RUNNING"


class JsonConsole(Console):
    """A console whose messages are JSON lines: time, level, message, and what the message is about."""

    def print(self, *objects: object, **_: object) -> None:
        """Print a message; its colour says its level."""
        text = objects[0] if len(objects) == 1 and isinstance(objects[0], Text) else None
        message = " ".join(str(each.plain if isinstance(each, Text) else each) for each in objects)
        self.write_line(_LEVELS.get(str(text.style) if text else "", "info"), message, fields_now())

    def write_line(self, level: str, message: str, fields: Mapping[str, object]) -> None:
        """Print a line with further fields."""
        document = {"time": int(time.time() * 1000), "level": level, "message": message, **fields}
        self.file.write(json.dumps(document, ensure_ascii=False, default=str) + "\n")
        self.file.flush()


class JsonBoard(Board):
    """Shows the states of queries as JSON lines now and then."""

    repeats: bool = True

    def print_state(self, state: QueryState) -> None:
        """Print a state with its numbers as fields."""
        if isinstance(self.console, JsonConsole):
            self.console.write_line("error" if state.error else "info", "progress", asdict(state))
