"""The archive of Spark's classes.

With it the JVM starts in half the time, for it need not read, check and link them one by one.

`kestrel prepare` makes it, every session that finds it uses it. The JVM itself sees whether an archive fits its version
and its class path, and does without where it does not.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

from kestrel_sql.spark.runtime.environment import ARCHIVE, own_folder

_MAKING = "-XX:ArchiveClassesAtExit"
_SILENT = "-Xlog:disable"
"""A JVM would print every class that it cannot keep, and warn of an archive that does not fit."""


def archive_path() -> Path:
    """Where the archive for this Spark stands, or would."""
    wheel = Path(pyspark.__file__).parent
    return own_folder() / f"{ARCHIVE}{pyspark.__version__}-{hashlib.sha256(str(wheel).encode()).hexdigest()[:8]}.jsa"


def archive_options(given: str) -> str:
    """The JVM options that use the archive, if there is one, before those that are `given`.

    A session that makes one uses none.
    """
    path = archive_path()
    return f"{_SILENT} -XX:SharedArchiveFile={path} {given}" if _MAKING not in given and path.exists() else given


def making_options(path: Path) -> str:
    """The JVM options of a session that leaves an archive of what it needed."""
    return f"{_SILENT} {_MAKING}={path}"
