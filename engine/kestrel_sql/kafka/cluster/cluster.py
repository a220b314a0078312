"""Runs on a cluster: packages the engine for the executors, and checks that they can import it."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from pyspark.sql import SparkSession

import kestrel_sql
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.cluster.packaging import archives
from kestrel_sql.kafka.cluster.yarn import YARN, prepare_yarn
from kestrel_sql.spark.runtime.environment import quiet_folder

INSTALLED = "spark.kestrel.installed"
"""A setting of Kestrel; `true` if `kestrel-sql` is installed on the executors, so that nothing is packaged."""

_ARCHIVES = "spark.archives"
_PATH = "spark.executorEnv.PYTHONPATH"
_FOLDERS = ("kestrel-engine", "kestrel-needs")
"""The folders of the archives on an executor."""

_PROBES = 4
_NATIVE = ("confluent_kafka", "pandas", "pyarrow")
"""Packages with binaries for one platform and one version of Python."""


def is_cluster(master: str) -> bool:
    """Return whether a master URL of Spark means other processes than this one."""
    return re.fullmatch(r"local(\[.*\])?", master) is None


def cluster_settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings that ship the engine and its dependencies to the executors.

    `given` are the user's settings.

    Raises:
        EngineError: the archives cannot be written.
    """
    if master == YARN:
        prepare_yarn()
    if not is_cluster(master) or given.get(INSTALLED) == "true":
        return {}
    # Stateful operators and Python sources also have workers beside the driver, with the Python of the executors.
    # With an editable install, the engine is in no folder of sys.path.
    engine = str(Path(next(iter(kestrel_sql.__path__))).parent)
    paths = (str(quiet_folder()), engine, *sys.path, os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    packaged = [f"{path}#{folder}" for path, folder in zip(archives(), _FOLDERS, strict=True)]
    return {
        _ARCHIVES: ",".join([*packaged, *filter(None, [given.get(_ARCHIVES)])]),
        _PATH: os.pathsep.join([*_FOLDERS, *filter(None, [given.get(_PATH)])]),
    }


def check_executors(spark: SparkSession, master: str) -> None:
    """Check that the executors can import the engine.

    Raises:
        EngineError: they cannot; says why, and what to install.
    """
    try:
        spark.sparkContext.parallelize(range(_PROBES), _PROBES).mapPartitions(_imported).collect()
    except Exception as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        python = f"Python {version} for {platform.machine()} under {os.environ.get('PYSPARK_PYTHON')}"
        raise EngineError(
            f"the executors of {master} cannot run the engine: {_reason(str(error))}",
            hint=(
                f"they need {python} (--spark-conf spark.pyspark.python=… names another); packages are shipped with the"
                f" job; or install kestrel-sql there, and use --spark-conf {INSTALLED}=true"
            ),
        ) from error


def _imported(tasks: Iterable[int]) -> Iterable[int]:
    """Import the packages of tasks. To unpickle this function, a worker has already imported the engine."""
    for module in _NATIVE:
        import_module(module)
    return tasks


def _reason(text: str) -> str:
    """The line of a Spark stack trace that says what happened."""
    found = re.findall(
        r"(?:ModuleNotFoundError|ImportError|Cannot run program|PySparkRuntimeError|PythonException)[^\n]*", text
    )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return str(found[-1] if found else lines[0] if lines else "unknown")
