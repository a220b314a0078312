"""Hand out chunks of cases to the workers of pytest-xdist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest
from xdist.scheduler import LoadScopeScheduling

from kestrel_qtt.plugin.chunks import chunk_names


class _Worker(Protocol):
    shutting_down: bool


class ChunkScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped
    """Schedule neighbouring cases as one unit, and every other test by itself; go on when a worker dies."""

    def __init__(self, config: pytest.Config, log: object, size: int, is_case: Callable[[str], bool]) -> None:
        super().__init__(config, log)
        self.size = size
        self.is_case = is_case
        self.chunks: dict[str, str] | None = None

    def remove_node(self, node: object) -> str | None:
        """Give the tests of a dead worker to the others, and report the test that it ran, which is not retried.

        pytest-xdist itself also returns finished tests; a worker that gets only finished tests waits for ever.
        """
        left = {scope: unit for scope, unit in self.assigned_work.pop(node).items() if not all(unit.values())}
        if not left:
            return None
        first = next(iter(left.values()))
        at: str = next(test for test, done in first.items() if not done)
        first[at] = True
        self.workqueue.update((scope, unit) for scope, unit in left.items() if not all(unit.values()))
        for other in self.assigned_work:
            self._reschedule(other)
        return at

    def mark_test_complete(self, node: object, item_index: int, duration: float = 0) -> None:
        """Note that a test is done, and forget a unit whose tests are: pytest-xdist counts all units after each test.

        Another plugin may have run the test again.
        """
        units = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if scope in units:
            super().mark_test_complete(node, item_index, duration)
            if all(units[scope].values()):
                del units[scope]

    def _reschedule(self, node: _Worker) -> None:
        """See that a worker has two tests or knows that there are no more.

        With one it waits to learn what comes after.
        """
        while node in self.registered_collections and not node.shutting_down:
            super()._reschedule(node)
            if self._pending_of(self.assigned_work[node]) > 1:
                return

    def _split_scope(self, nodeid: str) -> str:
        if self.chunks is None:
            self.chunks = chunk_names(self.collection, self.is_case, self.size, len(self.nodes))
        return self.chunks.get(nodeid, nodeid)
