"""Limits the time of one call, for patterns that never finish, and of the work for one request (docs/adr/0010)."""

from __future__ import annotations

import atexit
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import get_ident
from types import FrameType
from typing import Any, TypeVar, cast

import msgspec

from kestrel_sql.java.regex.match_process import call_in_helper
from kestrel_sql.systems import HAS_TIMER, at_fork_in_child

TICK = 0.1
"""The shortest limit, in seconds of processor time; a call is stopped after one to two of them."""

_SHORT_PATTERN = 200
_FEW_STEPS = 1_000_000
_COSTLY = re.compile(r"\)[*+?{]|\{|\\[0-9k]")
"""A repeated group, a counted repetition, a reference to a group."""


class TimeLimitError(ValueError):
    """A call exceeded its time limit."""


class WorkTimeError(TimeLimitError):
    """The work for one request exceeded its limit of time or of memory."""


MOST_MADE = 1 << 29
"""How many bytes the large values may take, all together, that the work for one request makes."""


LIMITED: dict[str, Callable[..., Any]] = {}
"""The functions with a limit, by module and name."""


class _Work(threading.local):
    deadline: float | None = None
    seconds: float = 0
    made: int = 0


_work = _Work()


@contextmanager
def work_limit(seconds: float) -> Iterator[None]:
    """Let `check_work` fail in this thread once this many seconds have passed, or too much was made."""
    _work.deadline, _work.seconds, _work.made = time.monotonic() + seconds, seconds, 0
    try:
        yield
    finally:
        _work.deadline = None


def is_limited() -> bool:
    """Whether this thread works for one request."""
    return _work.deadline is not None


def check_work(made: int = 0) -> None:
    """Check the limits of this thread's work, which has `made` so many bytes more.

    For the loops that a user's text can make long.

    Raises:
        WorkTimeError: its time is over, or it has made too much.
    """
    deadline = _work.deadline
    if deadline is None:
        return
    if time.monotonic() > deadline:
        raise WorkTimeError(f"The statement takes more than {_work.seconds:g} seconds")
    _work.made += made
    if _work.made > MOST_MADE:
        raise WorkTimeError(f"The statement makes more than {MOST_MADE >> 20} MB of large values")


class _TimerState(msgspec.Struct):
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


at_fork_in_child(_set_main_thread)


F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


def time_limited(body: F) -> F:
    """Make calls of a function of `calls` fail when they run longer than one or two ticks.

    In the main thread, where Spark's workers run functions, a signal interrupts the call. No signal interrupts another
    thread, and a match holds Python's lock, which stops all threads: calls from there go to the main thread of a helper
    process, unless the pattern is short work. Arguments and results are what JSON can hold.

    Raises:
        TimeLimitError: by each call that takes longer.
    """
    at = body.__code__.co_varnames.index("pattern")
    name = body.__name__

    @wraps(body)
    def call(*arguments: Any) -> object:
        if HAS_TIMER and get_ident() == _timer.main_thread:
            return call_with_limit(body, arguments)
        check_work()
        if _is_short(arguments[at], arguments):
            return body(*arguments)
        return _helped(name, arguments)

    LIMITED[name] = call
    return cast(F, call)


def _helped(name: str, arguments: tuple[object, ...]) -> object:
    failure, result = call_in_helper(name, arguments)
    if failure is None:
        return result
    raise (TimeLimitError if failure == TimeLimitError.__name__ else ValueError)(result)


def _is_short(pattern: str, arguments: tuple[object, ...]) -> bool:
    """Whether a match takes milliseconds at most, by an upper bound for patterns without nested repetition."""
    if len(pattern) > _SHORT_PATTERN or _COSTLY.search(pattern):
        return False
    repeats = sum(map(pattern.count, "*+?"))
    length = 1 + max(len(each) for each in arguments if isinstance(each, str))
    return bool(length ** (repeats + 1) << pattern.count("|") <= _FEW_STEPS)


def outside_time_limit(body: F) -> F:
    """Exclude the time that `body` takes from the limit of an enclosing call; for tables that are computed once."""

    @wraps(body)
    def call(*arguments: object) -> object:
        running, _timer.running = _timer.running, False
        try:
            return body(*arguments)
        finally:
            _timer.calls += 1
            _timer.running = running

    return cast(F, call)


def call_with_limit(body: Callable[..., T], arguments: tuple[object, ...]) -> T:
    """Call `body` under the timer. A module-level function, so that each worker process has exactly one timer."""
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
