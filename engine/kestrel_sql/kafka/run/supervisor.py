"""Starts queries again that something ended which may pass, for `kestrel run` and the server alike."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from kestrel_sql.errors import EngineError, QueryError, RegistryUnavailableError
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.running_query import RunningQuery
from kestrel_sql.kafka.run.topic_changes import damaged
from kestrel_sql.queries.log_context import about
from kestrel_sql.session.session import Session

RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""The seconds before each attempt to start a query again; the next batch that succeeds begins anew."""

AWAY_S = 2.0
"""The seconds between two questions to what does not answer."""


class Absences(msgspec.Struct):
    """What does not answer, and since when; says once that something is away, and once that it answers again.

    Without `patience` (s) it is waited for for ever.
    """

    say: Callable[[str], None]
    patience: float | None = None
    _since: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def note(self, what: str, message: str) -> None:
        """Note that something does not answer."""
        if what not in self._since:
            self._since[what] = time.monotonic()
            limit = "" if self.patience is None else f" up to {self.patience:.0f} s"
            self.say(f"{message}; waiting for it{limit}")

    def over(self, *answering: str) -> None:
        """Note what answers."""
        for what in answering:
            if self._since.pop(what, None) is not None:
                self.say(f"{what} answers again")

    def check(self) -> None:
        """Give up if something has not answered for too long.

        Raises:
            EngineError: it has not.
        """
        for what, since in self._since.items():
            if self.patience is not None and time.monotonic() - since > self.patience:
                raise EngineError(
                    f"{what} did not answer for {self.patience:.0f} s",
                    hint="nothing is lost: run the same command again to resume from the checkpoint",
                )


class Supervisor(msgspec.Struct, kw_only=True):
    """Starts queries again, each after a while that grows, as soon as broker, store and schema registry answer."""

    session: Session
    folder: CheckpointFolder
    offsets: BrokerOffsets
    broker: str
    """What messages call the broker."""
    say: Callable[[str], None]
    absences: Absences
    until_caught_up: bool = False
    _due: dict[str, float] = {}

    def tend(self, query: RunningQuery) -> bool:
        """Start a query again that has failed, if it is time; return whether it runs or is to run again."""
        if query.is_active or query.failure is None:
            return query.is_active
        with about(query=query.id, batch=query.progress.batch):
            if query.id not in self._due:
                return self._plan(query, query.failure)
            return time.monotonic() < self._due[query.id] or self._restart(query)

    def start_again(self, query: RunningQuery) -> None:
        """Start a query again that has failed, without a wait."""
        self._due[query.id] = 0.0
        self.tend(query)

    def forget(self, query_id: str) -> None:
        """Do not start a query again."""
        self._due.pop(query_id, None)

    def _plan(self, query: RunningQuery, failure: EngineError) -> bool:
        """Note when a query that has failed is to start again; return whether it is."""
        if isinstance(failure, RegistryUnavailableError):
            self._due[query.id] = 0.0
            return True
        if not query.may_be_retried or query.attempts >= len(RETRY_S):
            return False
        self._due[query.id] = time.monotonic() + RETRY_S[query.attempts]
        self.say(f"{failure}; trying again")
        return True

    def _restart(self, query: RunningQuery) -> bool:
        """Start a query again unless something does not answer yet; return False if it never can run."""
        registry, store = "the schema registry", "the store of the checkpoint"
        try:
            flaw = damaged(query.stored, self.folder, self.offsets)
            if isinstance(query.failure, RegistryUnavailableError):
                self.session.registry.latest(query.id)
        except RegistryUnavailableError:
            return self._wait(query, registry, str(query.failure))
        except QueryError as error:
            return self._wait(query, self.broker, error.message)
        except OSError as error:
            return self._wait(query, store, str(error.strerror or error))
        self.absences.over(self.broker, registry, store)
        del self._due[query.id]
        if flaw is not None:
            query.fail(flaw)
        elif isinstance(query.failure, RegistryUnavailableError):
            query.start(until_caught_up=self.until_caught_up)
        else:
            query.retry(until_caught_up=self.until_caught_up)
        return flaw is None

    def _wait(self, query: RunningQuery, what: str, message: str) -> bool:
        self._due[query.id] = time.monotonic() + AWAY_S
        self.absences.note(what, message)
        return True
