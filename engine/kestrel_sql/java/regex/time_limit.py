"""Limits the processor time of one call: patterns come from data, and some never finish (docs/adr/0010)."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from threading import get_ident
from types import FrameType
from typing import Any

TICK = 0.1
"""The shortest limit, in seconds of processor time; a call is stopped after one to two of them."""


class TimeLimitError(ValueError):
    """A call exceeded its time limit."""


@dataclass(slots=True)
class _TimerState:
    """State of the timer: the number of calls, whether one is running, and the number of calls at the last tick."""

    calls: int = 0
    running: bool = False
    calls_at_last_tick: int = 0
    started: bool = False
    main_thread: int | None = None
    """Identifier of the main thread; a signal interrupts no other."""


_timer = _TimerState(main_thread=threading.main_thread().ident)


def _set_main_thread() -> None:
    _timer.main_thread = threading.main_thread().ident


os.register_at_fork(after_in_child=_set_main_thread)


def time_limited(body: Callable[..., Any]) -> Callable[..., Any]:
    """Make calls of `body` fail with TimeLimitError when they run longer than one or two ticks.

    The limit holds in the main thread only, where Spark's workers run functions: a signal interrupts no other thread.
    """

    @wraps(body)
    def call(*arguments: Any) -> Any:
        return call_with_limit(body, arguments)

    return call


def outside_time_limit(body: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude the time that `body` takes from the limit of an enclosing call; for tables that are computed once."""

    @wraps(body)
    def call(*arguments: Any) -> Any:
        running, _timer.running = _timer.running, False
        try:
            return body(*arguments)
        finally:
            _timer.calls += 1
            _timer.running = running

    return call


def call_with_limit(body: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call `body` under the timer. A module-level function, so that each worker process has exactly one timer."""
    if get_ident() != _timer.main_thread:
        return body(*arguments)
    if not _timer.started:
        _start()
    _timer.calls += 1
    _timer.running = True
    try:
        return body(*arguments)
    finally:
        _timer.running = False


def _start() -> None:
    """Start the interval timer. It runs across calls, because a timer per call would cost more than most matches."""
    signal.signal(signal.SIGVTALRM, _tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)
    _timer.started = True
    # At exit Python restores the default signal handlers before the process ends; a tick would then kill the process.
    atexit.register(_stop)


def _stop() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    _timer.started = False
    atexit.unregister(_stop)


def _tick(_signal: int, _frame: FrameType | None) -> None:
    stuck = _timer.running and _timer.calls_at_last_tick == _timer.calls
    if _timer.calls_at_last_tick == _timer.calls and not _timer.running:
        _stop()
    _timer.calls_at_last_tick = _timer.calls
    if stuck:
        _timer.running = False
        raise TimeLimitError(f"the pattern takes more than {TICK} seconds for this value")
