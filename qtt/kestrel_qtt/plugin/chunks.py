"""Divide cases into chunks that run together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kestrel_qtt.cases.discovery import SPEC_FILE
from kestrel_qtt.plans.store import case_folder
from kestrel_qtt.runner import WORTH_A_JOB


def chunk_names(nodeids: Sequence[str], is_case: Callable[[str], bool], size: int, workers: int = 1) -> dict[str, str]:
    """Name the chunk of every case among the tests `nodeids`.

    Neighbours share a chunk of at most `size`, small enough that each of the workers gets one if that is worth its
    JVM. The stored plans of a case are its neighbours: their queries are mostly equal to those of the case. Scheduler
    and workers of pytest-xdist come to the same chunks, as both know the same tests.
    """
    cases = sorted(filter(is_case, nodeids), key=_folder_of_plans)
    chunk = max(1, min(size, max(WORTH_A_JOB, -(-len(cases) // max(1, workers)))))
    return {nodeid: f"cases {index // chunk}" for index, nodeid in enumerate(cases)}


def _folder_of_plans(nodeid: str) -> str:
    """The folder of the plans of a case or of a stored plan, relative to the store."""
    *folders, name = nodeid.partition("::")[0].split("/")
    return "/".join(folders[1:-1]) if name == SPEC_FILE else case_folder(nodeid)
