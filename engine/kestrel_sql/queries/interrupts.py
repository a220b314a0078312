"""Ctrl-C while Spark works: never in the middle of a call of the JVM, whose answer would be taken for that of the next."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_LOOK_S = 0.1


@contextmanager
def interrupts_wait(stop: Callable[[], None] | None = None) -> Iterator[None]:
    """Let an interrupt wait until the block is done; a second one does not wait.

    `stop` is called from another thread, again and again, from the interrupt to the end of the block, which it should bring about. Without
    it the block takes as long as it does.

    Raises:
        KeyboardInterrupt: after the block, if there was one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen, done = threading.Event(), threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if seen.is_set():
            raise KeyboardInterrupt
        seen.set()
        if stop is not None:
            threading.Thread(target=_urge, args=(stop, done), daemon=True).start()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    except Exception:
        if seen.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        done.set()
        signal.signal(signal.SIGINT, before)
    if seen.is_set():
        raise KeyboardInterrupt


def _urge(stop: Callable[[], None], done: threading.Event) -> None:
    while not done.wait(_LOOK_S):
        # What is to be stopped may end by itself at the same moment.
        with suppress(Exception):
            stop()
