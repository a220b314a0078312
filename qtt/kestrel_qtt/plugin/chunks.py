"""Divide cases into chunks that run together."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def chunk_names(nodeids: Sequence[str], is_case: Callable[[str], bool], size: int, workers: int = 1) -> dict[str, str]:
    """Name the chunk of every case among the tests `nodeids`.

    Neighbours share a chunk of at most `size`, small enough that each of the workers gets one. Scheduler and workers of
    pytest-xdist come to the same chunks, as both know the same tests.
    """
    cases = [nodeid for nodeid in nodeids if is_case(nodeid)]
    chunk = max(1, min(size, -(-len(cases) // max(1, workers))))
    return {nodeid: f"cases {index // chunk}" for index, nodeid in enumerate(cases)}
