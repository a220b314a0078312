"""Delays Ctrl-C while a query works.

An interrupt in the middle of a batch would leave it half processed. In a call of the JVM it would leave an answer to be
read as that of the next call.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_LOOK_S = 0.1


@contextmanager
def delayed_interrupts(stop: Callable[[], None] | None = None) -> Iterator[None]:
    """Delay an interrupt until the end of the block; a second interrupt is not delayed.

    From the interrupt to the end of the block, another thread calls `stop` repeatedly, which should end the block.

    Raises:
        KeyboardInterrupt: there was an interrupt; raised after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen, done = threading.Event(), threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if seen.is_set():
            raise KeyboardInterrupt
        seen.set()
        if stop is not None:
            threading.Thread(target=_repeat, args=(stop, done), daemon=True).start()

    before = signal.signal(signal.SIGINT, handle)
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


def _repeat(stop: Callable[[], None], done: threading.Event) -> None:
    while not done.wait(_LOOK_S):
        # The query may end by itself at the same moment.
        with suppress(Exception):
            stop()
