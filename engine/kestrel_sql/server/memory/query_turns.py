"""The work of the engine's thread between commands: queries take turns, one piece at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.server.memory.push_queries import Pushes
from kestrel_sql.server.serving.error_log import ErrorLog

_log = logging.getLogger(__name__)


class Turns:
    """Lets the queries of an engine process what has arrived."""

    def __init__(self, engine: ServedEngine, pushes: Pushes) -> None:
        """Do nothing until `begin`."""
        self.errors = ErrorLog(engine.session)
        self._engine = engine
        self._pushes = pushes
        self._active = False
        self._turn = 0

    def begin(self) -> None:
        """Spark runs: queries may."""
        self._active = True

    def stop(self) -> None:
        """Start no piece any more, and say how many records were bad."""
        self._active = False
        self.errors.close()

    def step(self) -> bool:
        """Do a piece of work for the query whose turn it is; whether there was any."""
        if not self._active:
            return False
        waiting: list[Callable[[], None]] = [
            lambda name=name: self._advance(name)  # type: ignore[misc]
            for name, (_, _, lag, error) in self._engine.progress().items()
            if lag and not error and name not in self._engine.paused
        ]
        waiting += self._pushes.work()
        if not waiting:
            return False
        self._turn = (self._turn + 1) % len(waiting)
        waiting[self._turn]()
        self.errors.note(self._engine.take_log())
        return True

    def _advance(self, name: str) -> None:
        try:
            self._engine.advance(name)
        except Exception as error:  # noqa: BLE001 - one query's failure must not end the thread
            _log.exception("query %s failed", name)
            self._engine.fail(name, str(error).split("\n", 1)[0] or type(error).__name__)
