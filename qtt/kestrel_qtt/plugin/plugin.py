"""Collect case files as pytest items: those of the folders that `qtt_cases` names, and those on the command line.

Every run of pytest in an environment imports this module, whatever project it tests. So what loads and runs cases is
imported with the first case file only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest

from kestrel_qtt.cases.discovery import SUFFIXES, CaseFile, Finder
from kestrel_qtt.drivers.driver import Driver, DriverError
from kestrel_qtt.extra import missing
from kestrel_qtt.options import CARRIER_OPTIONS, LOAD_OPTIONS, RUN_OPTIONS

_CHUNKED = "qtt_chunked"
_EQUAL_QUERIES = "qtt_equal_queries"
_EQUAL = pytest.StashKey[int]()
_FINDER = pytest.StashKey[Finder]()
_FILE_AT = pytest.StashKey[Callable[[Path], CaseFile | None]]()
_SUITE = pytest.StashKey[Any]()


class _Worker(Protocol):
    config: pytest.Config
    workerinput: dict[str, object]


class QttHooks:
    """Hooks of the plugin."""

    @pytest.hookspec(firstresult=True)
    def pytest_qtt_driver(self, config: pytest.Config, carrier: str) -> Driver | None:
        """Open the driver that runs cases on a carrier, `spark` or `process`.

        Called once per process and carrier, when the first case is about to run.
        """


class CaseCollector(pytest.File):
    """A case file; its items are the expanded cases, and one failing item for each that cannot be read."""

    def __init__(self, *, file: CaseFile, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.file = file

    def collect(self) -> Iterator[pytest.Item]:
        """Load the file."""
        suite = _suite_of(self.config)
        return iter(()) if suite is None else suite.items(self, self.file)


@pytest.fixture
def qtt(request: pytest.FixtureRequest) -> object:
    """Run cases of ksqlDB statements that the test states: a `kestrel_qtt.plugin.fixture.Qtt`."""
    try:
        suite = _suite_of(request.config)
    except pytest.Collector.CollectError as error:
        pytest.fail(str(error), pytrace=False)
    if suite is None:
        pytest.fail("no case can run: see the first error", pytrace=False)
    from kestrel_qtt.plugin.fixture import Qtt

    return Qtt(suite, request.path, request.config.rootpath, request.node.name)


def _suite_of(config: pytest.Config) -> Any:
    """The suite of this process, opened on first use; raise CollectError."""
    if _SUITE not in config.stash:
        # If no case can run, one error is enough: other files find None and are skipped.
        config.stash[_SUITE] = None
        config.stash[_SUITE] = _open_suite(config)
    return config.stash[_SUITE]


def _open_suite(config: pytest.Config) -> object:
    """What loads and runs the cases of this process; raise CollectError."""
    try:
        from kestrel_qtt.plugin.suite import Suite

        return Suite(config)
    except ModuleNotFoundError as error:
        raise pytest.Collector.CollectError(missing(error)) from error
    except DriverError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks of the plugin."""
    pluginmanager.add_hookspecs(QttHooks)


@pytest.hookimpl(trylast=True)
def pytest_qtt_driver(config: pytest.Config, carrier: str) -> Driver:
    """Open the driver of our own engine."""
    from kestrel_qtt.drivers.open import open_driver

    return open_driver(carrier)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the plugin, most of them those of `qtt run`."""
    parser.addini("qtt_cases", "folders of cases that are collected wherever pytest passes by", type="paths")
    parser.addini("qtt_functions", "Python files with functions that the cases may call", type="paths")
    group = parser.getgroup("qtt", "query-translation cases")
    for name, option in (*LOAD_OPTIONS.items(), *RUN_OPTIONS.items(), *CARRIER_OPTIONS.items()):
        group.addoption(f"--qtt-{name}", **{**option, "dest": f"qtt_{option.get('dest', name).replace('-', '_')}"})
    group.addoption(
        "--qtt-html", metavar="DIR", help="write a report of the cases to look at: DIR/index.html, one file"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find out where cases are wanted; a run without paths takes the folders of `qtt_cases` for test paths, too."""
    named = tuple(config.getini("qtt_cases"))
    gone = [str(folder) for folder in named if not folder.is_dir()]
    if gone:
        raise pytest.UsageError(f"qtt_cases names {', '.join(gone)}, which is not a folder")
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        asked = _paths(config)
        config.args += [str(folder) for folder in named if not any(map(folder.is_relative_to, asked))]
    is_given = config.args_source is pytest.Config.ArgsSource.ARGS
    given = tuple(_paths(config)) if is_given else ()
    config.stash[_EQUAL] = 0
    # Without folders of cases, the YAML and JSON files of a command line may belong to other plugins.
    finder = Finder(given, named, ksqldb=config.getoption("--qtt-ksqldb"), mixed=not named)
    config.stash[_FINDER] = finder
    file_at: Callable[[Path], CaseFile | None] = cache(finder.at)
    config.stash[_FILE_AT] = file_at


def _paths(config: pytest.Config) -> list[Path]:
    """The files and folders that this run is asked for."""
    return [Path(config.invocation_params.dir, argument.partition("::")[0]) for argument in config.args]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseCollector | None:
    """Collect a case file."""
    file = parent.config.stash[_FILE_AT](file_path)
    return None if file is None else CaseCollector.from_parent(parent, path=file_path, file=file)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Divide the selected cases into chunks that run together."""
    suite = session.config.stash.get(_SUITE, None)
    if suite is not None:
        worker = vars(session.config).get("workerinput")
        # A worker cannot predict how another scheduler distributes cases.
        size = 1 if worker is not None and not worker[_CHUNKED] else session.config.getoption("--qtt-group-size")
        suite.divide(session.items, size, worker["workercount"] if worker else 1, case_filter(session.config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report the seconds of each case; pytest counts those of a whole chunk for its first case."""
    report = yield
    seconds = getattr(item, "seconds", None)
    if call.when == "call" and isinstance(seconds, float):
        report.duration = seconds
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Count the queries that were not run again; a worker of pytest-xdist sends its number to the controller."""
    suite = session.config.stash.get(_SUITE, None)
    if suite is not None:
        session.config.stash[_EQUAL] += suite.equal_queries
    worker = vars(session.config).get("workeroutput")
    if worker is not None:
        worker[_EQUAL_QUERIES] = session.config.stash[_EQUAL]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: _Worker) -> None:
    """Add the number of a worker that has ended; one that died has none."""
    node.config.stash[_EQUAL] += vars(node).get("workeroutput", {}).get(_EQUAL_QUERIES, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what ran the queries of the cases, and how many queries were not run again."""
    reports = (report for found in terminalreporter.stats.values() for report in found)
    told = (dict(report.user_properties) for report in reports if getattr(report, "when", "") == "call")
    if carriers := Counter(str(properties["carrier"]) for properties in told if properties.get("carrier")):
        from kestrel_qtt.report.text import carriers_text

        terminalreporter.write_line(f"cases ran on {carriers_text(carriers)}")
    if number := config.stash[_EQUAL]:
        terminalreporter.write_line(
            f"{number} queries were not run: an equal query, often that of a stored plan, ran over equal records, and"
            " its output was compared for them, too"
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the driver, if one was opened."""
    suite = config.stash.get(_SUITE, None)
    if suite is not None:
        suite.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: _Worker) -> None:
    """Tell a worker of pytest-xdist whether it gets its cases in chunks."""
    node.workerinput[_CHUNKED] = _gives_chunks(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep the cases of a chunk on one worker, since they run in one query; other tests are given out one by one."""
    if not _gives_chunks(config):
        return None
    from kestrel_qtt.plugin.xdist_chunks import ChunkScheduling

    return ChunkScheduling(config, log, config.getoption("--qtt-group-size"), case_filter(config))


def _gives_chunks(config: pytest.Config) -> bool:
    """Whether pytest-xdist distributes by load, and there is a case to be collected."""
    return config.getoption("dist") == "load" and next(config.stash[_FINDER].walk(_paths(config)), None) is not None


def case_filter(config: pytest.Config) -> Callable[[str], bool]:
    """A function that says whether the test with an id is a case; scheduler and workers must agree."""
    found: dict[str, bool] = {}

    def is_case(nodeid: str) -> bool:
        path = nodeid.partition("::")[0]
        if path not in found:
            found[path] = path.endswith(SUFFIXES) and config.stash[_FILE_AT](config.rootpath / path) is not None
        return found[path]

    return is_case
