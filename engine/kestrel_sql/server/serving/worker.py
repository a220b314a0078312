"""Threads that carry out jobs one by one."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from kestrel_sql.errors import EngineError
from kestrel_sql.java.regex.time_limit import TimeLimitError, work_limit
from kestrel_sql.server.descriptors import is_out_of_descriptors, out_of_descriptors
from kestrel_sql.server.errors import SERVER_ERROR, ApiError, internal_error

_log = logging.getLogger(__name__)

WORK_S = 60.0
"""How long the work for one request may take where it parses, plans and evaluates."""

_T = TypeVar("_T")
_Job = tuple[Callable[[], object], "Future[object]"]


class Worker:
    """A thread with a queue of jobs; while it has none it calls `idle`, and sleeps once that has nothing to do."""

    def __init__(self, name: str, idle: Callable[[], bool] | None = None, idle_s: float | None = None) -> None:
        """Start the thread.

        `idle` does a piece of work and says whether there was any; it is asked every `idle_s` seconds.
        """
        self._idle_s = idle_s
        self._idle = idle
        self._jobs: deque[_Job] = deque()
        self._ready = threading.Condition()
        self._woken = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], _T]) -> Future[_T]:
        """Put a job at the end of the queue."""
        future: Future[_T] = Future()
        with self._ready:
            if self._closed:
                future.cancel()
                return future
            self._jobs.append((job, future))  # type: ignore[arg-type]
            self._ready.notify()
        return future

    def wake(self) -> None:
        """Let the thread look for work."""
        with self._ready:
            self._woken = True
            self._ready.notify()

    def close(self, timeout: float = 10.0) -> None:
        """End the thread after the job that runs, at most `timeout` seconds later; other jobs are cancelled."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join(timeout)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            work, future = job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - whoever submitted the job gets the error
                    future.set_exception(error)
        for _, future in self._jobs:
            future.cancel()

    def _next(self) -> _Job | None:
        while True:
            with self._ready:
                if self._closed:
                    return None
                if self._jobs:
                    return self._jobs.popleft()
                self._woken = False
            if self._idled():
                continue
            with self._ready:
                if not (self._jobs or self._woken or self._closed):
                    self._ready.wait(self._idle_s)

    def _idled(self) -> bool:
        if self._idle is None:
            return False
        try:
            return self._idle()
        except Exception:  # noqa: BLE001 - one query's failure must not end the thread
            _log.exception("the work between jobs failed")
            return False


def limited(work: Callable[[], _T]) -> Callable[[], _T]:
    """Work for one request that ends when it takes too long, whichever thread it runs in."""

    def run() -> _T:
        with work_limit(WORK_S):
            return work()

    return run


async def result_of(future: asyncio.Future[_T]) -> _T:
    """The result of work on another thread.

    Raises:
        ApiError: it failed for a reason that nobody foresaw; other errors of the API and the engine come as they are.
    """
    try:
        return await future
    except (ApiError, EngineError):
        raise
    except TimeLimitError as error:
        raise ApiError(SERVER_ERROR, str(error)) from error
    except Exception as error:
        if is_out_of_descriptors(error):
            raise out_of_descriptors() from error
        _log.exception("a request failed")
        raise internal_error(error) from error
