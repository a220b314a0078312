"""Hand out chunks of cases to the workers of pytest-xdist."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from qtt.ahead import chunk_names


class ChunkScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped
    """Schedule neighbouring cases as one unit, and every other test by itself."""

    def __init__(self, config: pytest.Config, log: Any, size: int) -> None:
        super().__init__(config, log)
        self.size = size
        self.chunks: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self.chunks:
            self.chunks = chunk_names(self.collection, self.size, len(self.nodes))
        return self.chunks.get(nodeid, nodeid)
