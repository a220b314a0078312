"""Holds the runner over memory streams that all drivers of a process share."""

from __future__ import annotations

from threading import Lock
from typing import Any


class Memory:
    """Opens the runner on first use, because Spark takes seconds to start; thread-safe."""

    def __init__(self) -> None:
        self._runner: Any = None
        self._opening = Lock()

    def runner(self) -> Any:
        """Return the runner, a `GroupRunner`; its module is imported here, because it imports Spark."""
        from kestrel_qtt.drivers.group_runner import GroupRunner
        from kestrel_qtt.drivers.warm.session import open_case_session

        with self._opening:
            if self._runner is None:
                self._runner = GroupRunner(open_case_session())
            return self._runner

    def close(self) -> None:
        """Remove what the runner keeps on disk, if there is one."""
        if self._runner is not None:
            self._runner.close()
