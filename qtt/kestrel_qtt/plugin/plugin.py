"""Collect case files as pytest items: `pytest test-cases/` is the whole interface."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cases.discovery import is_test_file
from kestrel_qtt.cases.known_gaps import Ledger, ledger_of, load_gaps, unknown_cases
from kestrel_qtt.cases.model import Case, CaseFileError, Status
from kestrel_qtt.drivers.driver import DEFAULT_GROUP_SIZE, Driver, RunOptions
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.load import load
from kestrel_qtt.plugin.ahead import Ahead, chunk_names

_AHEAD = pytest.StashKey[Ahead]()
_WORKER = pytest.StashKey[Mapping[str, Any]]()
_CHUNKED = "qtt_chunked"
_LEDGERS = pytest.StashKey[dict[Path, Ledger]]()


class QttHooks:
    """Hooks of the plugin."""

    @pytest.hookspec(firstresult=True)
    def pytest_qtt_driver(self, config: pytest.Config) -> Driver | None:
        """Open the driver that runs the cases; called once per process, when the first case is about to run."""


class MismatchError(Exception):
    """A case whose outcome is not what it expects."""


class CaseFile(pytest.File):
    """A case file; its items are the expanded cases, and one failing item for each that cannot be read."""

    def collect(self) -> Iterator[pytest.Item]:
        """Load the file."""
        loaded = load(self.path)
        ledger, errors = self._ledger()
        errors += loaded.errors
        own = {case.id for case in loaded.cases}
        stem = next(iter(own)).rpartition("::")[0] if own else ""
        here = (gap for gap in unknown_cases(ledger, own) if gap.case.rpartition("::")[0] == stem)
        errors += tuple(CaseFileError(gap.file, gap.line, f"there is no case {gap.case}") for gap in here)
        for error in errors:
            yield BadCaseItem.from_parent(self, name=f"line-{error.line}", error=error)
        for case in loaded.cases:
            item = CaseItem.from_parent(self, name=case.id.rpartition("::")[2], case=case)
            if gap := ledger.get(case.id):
                item.add_marker(pytest.mark.xfail(reason=str(gap), strict=True, raises=MismatchError))
            yield item

    def _ledger(self) -> tuple[Ledger, tuple[CaseFileError, ...]]:
        path = ledger_of(self.path)
        if path is None:
            return {}, ()
        ledgers = self.config.stash.setdefault(_LEDGERS, {})
        try:
            if path not in ledgers:
                ledgers[path] = load_gaps(path)
        except CaseFileError as error:
            return {}, (error,)
        return ledgers[path], ()


class CaseItem(pytest.Item):
    """One case."""

    def __init__(self, *, case: Case, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case

    def runtest(self) -> None:
        """Judge the case; it runs together with the cases of its chunk when the first of them is due."""
        result = self.config.stash[_AHEAD].result(self.case)
        if result.status is Status.ERROR:
            raise RuntimeError(result.reason)
        if result.status is not Status.PASSED:
            raise MismatchError(result.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the place of the case and the differences, without a traceback of the harness."""
        if isinstance(excinfo.value, (MismatchError, RuntimeError)):
            return f"{self.case.file}:{self.case.line}: {self.case.name}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Locate the case for reports and editors."""
        return self.path, self.case.line - 1, self.case.name


class BadCaseItem(pytest.Item):
    """A file or case that cannot be read."""

    def __init__(self, *, error: CaseFileError, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    def runtest(self) -> None:
        """Fail."""
        raise self.error

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show file, line and what is wrong there."""
        return str(excinfo.value) if isinstance(excinfo.value, CaseFileError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Locate the error."""
        return self.error.file, self.error.line - 1, self.name


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks of the plugin."""
    pluginmanager.add_hookspecs(QttHooks)


@pytest.hookimpl(trylast=True)
def pytest_qtt_driver() -> Driver:
    """Open the driver of our own engine."""
    return open_driver()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the plugin."""
    group = parser.getgroup("qtt", "query-translation cases")
    group.addoption("--qtt-cut", metavar="HOW", help="cut the input into micro-batches: one, each or random:SEED")
    group.addoption(
        "--qtt-restart", action="store_true", help="stop every query in the middle and restart it from its checkpoint"
    )
    group.addoption(
        "--qtt-group-size",
        type=int,
        default=DEFAULT_GROUP_SIZE,
        metavar="N",
        help="how many cases are run ahead together",
    )
    group.addoption("--qtt-tolerant-errors", action="store_true", help="accept any rejection of the right statement")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseFile | None:
    """Collect the case files of `test-cases`, and the stored plans of `historic-plans`, each run against its own spec."""
    return CaseFile.from_parent(parent, path=file_path) if is_test_file(file_path) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Divide the selected cases into chunks that run together."""
    config = session.config
    size = max(1, config.getoption("--qtt-group-size"))
    worker: Mapping[str, Any] | None = config.stash.get(_WORKER, None)
    if worker is not None and not worker.get(_CHUNKED):
        # Another scheduler gives out cases in ways that a worker cannot foresee.
        size = 1
    names = chunk_names([item.nodeid for item in session.items], size, worker["workercount"] if worker else 1)
    chunks: dict[str, list[Case]] = {}
    for item in session.items:
        if isinstance(item, CaseItem):
            chunks.setdefault(names.get(item.nodeid, item.nodeid), []).append(item.case)
    config.stash[_AHEAD] = Ahead(
        {case.id: chunk for chunk in chunks.values() for case in chunk},
        RunOptions(config.getoption("--qtt-cut"), config.getoption("--qtt-restart"), size),
        tolerant_errors=config.getoption("--qtt-tolerant-errors"),
        open_driver=lambda: config.hook.pytest_qtt_driver(config=config),
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the driver, if one was opened."""
    if ahead := config.stash.get(_AHEAD, None):
        ahead.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist whether it gets its cases in chunks."""
    node.workerinput[_CHUNKED] = node.config.getoption("dist") == "load"


def pytest_configure(config: pytest.Config) -> None:
    """Remember what pytest-xdist told this worker; as one of several it takes less memory (see `kestrel_sql.spark.runtime.session`)."""
    worker = vars(config).get("workerinput")
    if worker is not None:
        config.stash[_WORKER] = worker
        os.environ.setdefault("KESTREL_TEST_HEAP", "850m")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the cases of a chunk on one worker, since they run in one query; other tests are given out one by one."""
    if config.getoption("dist") != "load":
        return None
    from kestrel_qtt.plugin.xdist_chunks import ChunkScheduling

    return ChunkScheduling(config, log, config.getoption("--qtt-group-size"))
