"""The cases of one run of pytest: loaded as items, divided into chunks, each chunk run when its first case is due."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import TerminalRepr, TracebackStyle
from msgspec.structs import replace

from kestrel_qtt.cases.discovery import CaseFile
from kestrel_qtt.cases.known_gaps import Gap, Ledger
from kestrel_qtt.cases.model import Case, Outcome, Result, Status
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.drivers.functions import check_functions
from kestrel_qtt.drivers.open import run_cold
from kestrel_qtt.load import Loader
from kestrel_qtt.options import run_options
from kestrel_qtt.plugin.chunks import chunk_names
from kestrel_qtt.report.html import write_html
from kestrel_qtt.report.text import reason_text, summarise
from kestrel_qtt.runner import file_error_result, run_cases, run_group


class CaseFailedError(Exception):
    """A case that did not pass, or could not be read."""


class CaseItem(pytest.Item):
    """One case; `unreadable` says what is wrong with one that cannot be run."""

    def __init__(self, *, suite: Suite, case: Case, unreadable: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.suite = suite
        self.case = case
        self.unreadable = unreadable
        self.seconds: float | None = None

    def runtest(self) -> None:
        """Compare the outcome with the expectation."""
        if self.unreadable:
            raise CaseFailedError(self.unreadable)
        result = self.suite.result(self.case)
        self.seconds = result.seconds
        self.user_properties.append(("carrier", result.carrier))
        if result.status is Status.SKIPPED:
            pytest.xfail(result.reason)
        if result.status is not Status.PASSED:
            raise CaseFailedError(reason_text(result))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: TracebackStyle | None = None
    ) -> str | TerminalRepr:
        """Show where the case is and what differs, without a traceback of the harness."""
        if isinstance(excinfo.value, CaseFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Locate the case for reports and editors."""
        return self.case.file, self.case.line - 1, self.case.name


class Suite:
    """Loads case files, and runs chunks of their cases on a driver that is opened for the first.

    Without `--qtt-on` cases of files run on Spark, and those that a test states in this process.

    Raises:
        DriverError: a file of `qtt_functions` cannot be loaded.
    """

    def __init__(self, config: pytest.Config) -> None:
        functions = config.getini("qtt_functions")
        check_functions(functions)
        if "workerinput" in vars(config):
            # Each of several workers takes less memory: see `kestrel_sql.spark.runtime.session`.
            os.environ.setdefault("KESTREL_TEST_HEAP", "850m")
        if config.getoption("--qtt-cold"):
            run_cold()
        self._config = config
        self.loader = Loader(functions)
        self._gaps: dict[str, Gap] = {}
        self._chunks: dict[str, Sequence[Case]] = {}
        self._results: dict[str, Result] = {}
        self._drivers: dict[str, Driver] = {}
        self._started = time.perf_counter()

    def items(self, parent: pytest.Collector, file: CaseFile) -> Iterator[CaseItem]:
        """Return the cases of a file, and its errors."""
        loaded = self.loader.load(file)
        self._gaps |= loaded.gaps
        for failed in map(file_error_result, loaded.errors):
            self._results[failed.case.id] = failed
            yield self._item(parent, failed.case, failed.reason)
        for case in loaded.cases:
            yield self._item(parent, case)

    def _item(self, parent: pytest.Collector, case: Case, unreadable: str = "") -> CaseItem:
        name = case.id.rpartition("::")[2]
        return CaseItem.from_parent(parent, name=name, suite=self, case=case, unreadable=unreadable)

    def divide(self, items: Sequence[pytest.Item], size: int, workers: int, is_case: Callable[[str], bool]) -> None:
        """Divide the selected cases into chunks of at most `size`, as pytest-xdist's scheduler does for all workers."""
        names = chunk_names([item.nodeid for item in items], is_case, size, workers)
        chunks: dict[str, list[Case]] = {}
        for item in items:
            if isinstance(item, CaseItem) and not item.unreadable:
                chunks.setdefault(names[item.nodeid], []).append(item.case)
        self._chunks = {case.id: chunk for chunk in chunks.values() for case in chunk}

    def result(self, case: Case) -> Result:
        """The result of a case; the whole chunk runs for the first of its cases."""
        if case.id not in self._results:
            self.run([other for other in self._chunks[case.id] if other.id not in self._results], self._gaps, "spark")
        return self._results[case.id]

    def run(self, cases: Sequence[Case], gaps: Ledger, carrier: str = "process") -> list[Result]:
        """Run cases together, and keep their results for the report."""
        driver, options = self._opened(carrier), self._options()
        tolerant = self._config.getoption("--qtt-tolerant-errors")
        results = list(run_cases(cases, driver, options, tolerant_errors=tolerant, gaps=gaps))
        self._results |= {result.case.id: result for result in results}
        return results

    def outcome(self, case: Case) -> Outcome:
        """Run one case without comparing anything."""
        return next(outcome for _, outcome, _ in run_group([case], self._opened("process"), self._options()))

    def _opened(self, default: str) -> Driver:
        carrier = self._config.getoption("--qtt-on") or default
        if carrier not in self._drivers:
            self._drivers[carrier] = self._config.hook.pytest_qtt_driver(config=self._config, carrier=carrier)
        return self._drivers[carrier]

    def _options(self) -> RunOptions:
        options = run_options(lambda name: self._config.getoption(f"--qtt-{name}"))
        return replace(options, reuse=True)

    @property
    def equal_queries(self) -> int:
        """How many queries took the result of an equal one over equal records."""
        return sum(getattr(driver, "equal_queries", 0) for driver in self._drivers.values())

    def close(self) -> None:
        """Write the report that is asked for, and close the drivers that were opened."""
        folder = self._config.getoption("--qtt-html")
        if folder is not None and self._results:
            self._write_report(Path(folder))
        while self._drivers:
            self._drivers.popitem()[1].close()

    def _write_report(self, folder: Path) -> None:
        """Write the report of this process: a worker of pytest-xdist has a folder of its own."""
        worker = vars(self._config).get("workerinput")
        results = list(self._results.values())
        summary = summarise(results, time.perf_counter() - self._started)
        explain = next((getattr(driver, "explain", None) for driver in self._drivers.values()), None)
        write_html(folder / worker["workerid"] if worker else folder, results, summary, explain)
