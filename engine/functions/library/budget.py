"""A limit on the time that one value may take: patterns come from data, and some take for ever (docs/adr/0008)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

SECONDS = 0.1
"""Seconds of processor time that a call may take; waiting for a busy machine does not count."""


class BudgetExceededError(ValueError):
    """A call took too long."""


def bounded(body: Callable[..., Any]) -> Callable[..., Any]:
    """Let calls of `body` fail with BudgetExceededError when they take longer than `SECONDS`.

    Only the main thread can be interrupted, which is where Spark's workers run functions; elsewhere there is no limit.
    """

    @wraps(body)
    def call(*arguments: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return body(*arguments)
        if signal.getsignal(signal.SIGVTALRM) is not _interrupt:
            signal.signal(signal.SIGVTALRM, _interrupt)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return body(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    return call


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise BudgetExceededError(f"the pattern takes more than {SECONDS} seconds for this value")
