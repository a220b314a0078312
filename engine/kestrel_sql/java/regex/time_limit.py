"""A limit on the time that one value may take: patterns come from data, and some take for ever (docs/adr/0010)."""

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
"""Seconds of processor time that a call may take at least, and half of what it may at most; waiting for a busy machine does not count."""


class BudgetExceededError(ValueError):
    """A call took too long."""


@dataclass(slots=True)
class _Watch:
    """What the timer knows: the number of calls, whether one is running, and the number at the last tick."""

    calls: int = 0
    running: bool = False
    seen: int = 0
    armed: bool = False
    home: int | None = None
    """The main thread, the only one that a signal interrupts."""


_watch = _Watch(home=threading.main_thread().ident)


def _move() -> None:
    _watch.home = threading.main_thread().ident


os.register_at_fork(after_in_child=_move)


def bounded(body: Callable[..., Any]) -> Callable[..., Any]:
    """Let calls of `body` fail with BudgetExceededError when they take longer than a `TICK` or two.

    Only the main thread can be interrupted, which is where Spark's workers run functions; elsewhere there is no limit.
    """

    @wraps(body)
    def call(*arguments: Any) -> Any:
        return watched(body, arguments)

    return call


def unlimited(body: Callable[..., Any]) -> Callable[..., Any]:
    """Let what `body` does within a bounded call not count: tables that are made once for all values."""

    @wraps(body)
    def call(*arguments: Any) -> Any:
        running, _watch.running = _watch.running, False
        try:
            return body(*arguments)
        finally:
            _watch.calls += 1
            _watch.running = running

    return call


def watched(body: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call `body` under the timer; a function of the module, so that a worker has one watch whatever was sent to it."""
    if get_ident() != _watch.home:
        return body(*arguments)
    if not _watch.armed:
        _arm()
    _watch.calls += 1
    _watch.running = True
    try:
        return body(*arguments)
    finally:
        _watch.running = False


def _arm() -> None:
    """Start to tick: a timer per value would cost more than most matches do."""
    signal.signal(signal.SIGVTALRM, _tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)
    _watch.armed = True
    # When Python ends, it takes its handlers back before the process does: a tick would then kill it.
    atexit.register(_disarm)


def _disarm() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    _watch.armed = False
    atexit.unregister(_disarm)


def _tick(_signal: int, _frame: FrameType | None) -> None:
    stuck = _watch.running and _watch.seen == _watch.calls
    if _watch.seen == _watch.calls and not _watch.running:
        _disarm()
    _watch.seen = _watch.calls
    if stuck:
        _watch.running = False
        raise BudgetExceededError(f"the pattern takes more than {TICK} seconds for this value")
