"""A run whose executors are processes of their own: what travels with the job, and whether they can work with it."""

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

INSTALLED = "spark.kestrel.installed"
"""A setting of ours: `true` says that executors have `kestrel-sql` installed, so that nothing has to travel."""

_ARCHIVES = "spark.archives"
_PATH = "spark.executorEnv.PYTHONPATH"
_FOLDERS = ("kestrel-engine", "kestrel-needs")
"""What the archives are called where an executor works."""

_PROBES = 4
_NATIVE = ("confluent_kafka", "pandas", "pyarrow")
"""Packages that are made for one machine and one version of Python."""


def is_cluster(master: str) -> bool:
    """Whether a master URL of Spark names something else than threads of this process."""
    return re.fullmatch(r"local(\[.*\])?", master) is None


def cluster_settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """The settings of Spark by which the engine and all that it needs reach the executors; `given` are the user's.

    Raises:
        EngineError: the archives cannot be made.
    """
    if not is_cluster(master) or given.get(INSTALLED) == "true":
        return {}
    # Stateful operators and sources of ours have workers beside the driver as well, with the executors' Python.
    # An editable install puts the engine into no folder of sys.path.
    engine = str(Path(next(iter(kestrel_sql.__path__))).parent)
    paths = (engine, *sys.path, os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    travelling = [f"{path}#{folder}" for path, folder in zip(archives(), _FOLDERS, strict=True)]
    return {
        _ARCHIVES: ",".join([*travelling, *filter(None, [given.get(_ARCHIVES)])]),
        _PATH: os.pathsep.join([*_FOLDERS, *filter(None, [given.get(_PATH)])]),
    }


def check_executors(spark: SparkSession, master: str) -> None:
    """Let executors import the engine.

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
            hint=f"they need {python} (--spark-conf spark.pyspark.python=… names another); packages travel with the job, "
            f"or pip install kestrel-sql there and --spark-conf {INSTALLED}=true",
        ) from error


def _imported(tasks: Iterable[int]) -> Iterable[int]:
    """Import what tasks need; to find this function, a worker has imported the engine already."""
    for module in _NATIVE:
        import_module(module)
    return tasks


def _reason(text: str) -> str:
    """The line that says what happened, of a trace of Spark."""
    found = re.findall(
        r"(?:ModuleNotFoundError|ImportError|Cannot run program|PySparkRuntimeError|PythonException)[^\n]*", text
    )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return str(found[-1] if found else lines[0] if lines else "unknown")
