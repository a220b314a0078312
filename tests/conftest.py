"""What tests of several rooms share.

Where the project and the material beside it are, how tests are ordered and reported.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.plugin.plugin import case_filter
from tests import scheduling
from tests.reporting import Reporting

ROOT = Path(__file__).resolve().parents[1]

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each of several JVMs takes less memory: see `kestrel_sql.spark.runtime.session`.
    os.environ.setdefault("KESTREL_TEST_HEAP", "600m")

# Tests and what they start leave no JVM behind.
os.environ["KESTREL_COLD"] = "1"

# No JVM of a test runs for long enough to win back what Java's best compiler takes: a quarter of a short run. Java
# begins with a 64th of the machine's memory as heap, 384 MB here; with these it has 258 MB after the tests of Spark.
_SMALL_HEAP = "-Xms160m -Xmn96m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=35"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:TieredStopAtLevel=1 {_SMALL_HEAP}")

# What C libraries of Java and Python free goes back to the system, and not to one of sixteen heaps of a process.
os.environ.setdefault("MALLOC_ARENA_MAX", "2")
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "131072")
# Commands that tests start would keep what they free (`KEPT_MEMORY`).
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "131072")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def pytest_configure(config: pytest.Config) -> None:
    """Report from the process that has the terminal."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporting(), "kestrel-reporting")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what is long first."""
    scheduling.sort(items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the garbage collector from what outlives all tests: their items and modules. It took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep together what shares a broker, a file or a query."""
    if config.getoption("dist") != "load":
        return None
    config.option.loadscopereorder = False
    return scheduling.Scheduling(config, log, config.getoption("--qtt-group-size"), case_filter(config))


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the project."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specification and foreign corpora; tests that need it are skipped where it is absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    return folder
