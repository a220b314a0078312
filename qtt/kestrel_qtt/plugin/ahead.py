"""Run cases ahead of the test framework that asks for them one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kestrel_qtt.cases.discovery import SUFFIXES
from kestrel_qtt.cases.model import Case, Result
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.runner import run_cases


def chunk_names(nodeids: Sequence[str], size: int, workers: int = 1) -> dict[str, str]:
    """Name the chunk of every case among the tests `nodeids`.

    Neighbours share a chunk of at most `size`, small enough that each of the workers gets one. Scheduler and workers of
    pytest-xdist come to the same chunks, as both know the same tests.
    """
    cases = [nodeid for nodeid in nodeids if is_case(nodeid)]
    chunk = max(1, min(size, -(-len(cases) // max(1, workers))))
    return {nodeid: f"cases {index // chunk}" for index, nodeid in enumerate(cases)}


def is_case(nodeid: str) -> bool:
    """Say whether the test `nodeid` is one of a case file or stored plan."""
    path = nodeid.partition("::")[0]
    return path.endswith(SUFFIXES)


@dataclass(slots=True)
class Ahead:
    """The results of chunks (by case id), run when the first case of a chunk is due; the driver is opened only then."""

    chunks: Mapping[str, Sequence[Case]]
    options: RunOptions
    tolerant_errors: bool
    open_driver: Callable[[], Driver]
    results: dict[str, Result] = field(default_factory=dict)
    _driver: Driver | None = None

    def result(self, case: Case) -> Result:
        """The result of `case`."""
        if case.id not in self.results:
            if self._driver is None:
                self._driver = self.open_driver()
            chunk = [other for other in self.chunks[case.id] if other.id not in self.results]
            for result in run_cases(chunk, self._driver, self.options, tolerant_errors=self.tolerant_errors):
                self.results[result.case.id] = result
        return self.results[case.id]

    def close(self) -> None:
        """Close the driver, if it was opened."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
