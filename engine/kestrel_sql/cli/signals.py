"""How commands that run until they are told to stop are told."""

from __future__ import annotations

import signal
from threading import Event


def stop_on_signals() -> Event:
    """An event that SIGTERM and Ctrl-C set; a second Ctrl-C ends the process as usual."""
    stop = Event()

    def end(number: int, _: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return stop
