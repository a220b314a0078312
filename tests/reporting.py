"""What a run of the tests says besides what pytest does.

Tests that run for long while they run, and the slowest files at the end.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from threading import Event, Thread

import pytest

LONG_S = 30.0
"""A test that runs longer is named, and named again whenever the time has doubled."""

_LOOK_S = 5.0
_FILES = 10


class Reporting:
    """A pytest plugin for the process that talks to the terminal; under pytest-xdist that is the controller."""

    def __init__(self) -> None:
        """Keep a way to the terminal that capturing does not redirect."""
        self._terminal = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else None
        self._running: dict[str, tuple[float, float]] = {}
        self._seconds: dict[str, float] = defaultdict(float)
        self._tests: dict[str, set[str]] = defaultdict(set)
        self._last: dict[str, float] = {}
        self._ended = Event()

    def pytest_sessionstart(self) -> None:
        """Begin to watch."""
        Thread(target=self._watch, name="long tests", daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        """Stop watching."""
        self._ended.set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note when a test began."""
        self._running[nodeid] = (time.monotonic(), LONG_S)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Forget a test that has ended."""
        self._running.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up setup, call and teardown of the tests of each file."""
        file = report.nodeid.partition("::")[0]
        self._seconds[file] += report.duration
        self._tests[file].add(report.nodeid)
        self._last[getattr(report, "worker_id", "")] = time.monotonic()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the slowest files, and say how long a worker had nothing to do."""
        if len(self._seconds) > 1:
            slowest = sorted(self._seconds, key=lambda file: -self._seconds[file])[:_FILES]
            terminalreporter.section(
                f"slowest files of {len(self._seconds)}, {sum(self._seconds.values()):.0f} s in all"
            )
            for file in slowest:
                terminalreporter.write_line(f"{self._seconds[file]:8.1f} s {len(self._tests[file]):5} tests  {file}")
        if len(self._last) > 1:
            idle = max(self._last.values()) - min(self._last.values())
            terminalreporter.write_line(f"{idle:8.1f} s between the last tests of the first and the last worker to end")

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            for nodeid, (began, limit) in list(self._running.items()):
                seconds = time.monotonic() - began
                if seconds >= limit and nodeid in self._running:
                    self._running[nodeid] = (began, limit * 2)
                    self._say(f"\nrunning for {seconds:.0f} s: {nodeid}\n")

    def _say(self, text: str) -> None:
        if self._terminal is not None:
            os.write(self._terminal, text.encode())
