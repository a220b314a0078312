"""What differs between the releases of Spark that Kestrel runs on."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
from packaging.specifiers import SpecifierSet

from kestrel_sql.errors import EngineError

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:
    # Before 4.2. No source is opened there, so that these are only names.
    ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

__all__ = [
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "check_release",
    "found_spark",
    "is_older",
    "minor_release",
]

RELEASES = SpecifierSet(">=4.1,<4.4")
"""The releases whose memory streams run every case."""

BROKER_RELEASES = SpecifierSet(">=4.2,<4.4")
"""The releases that tell a source in Python the limit of a batch, which a run on a broker needs."""


FIRST_RELEASE = "4.3"
"""The minor release of checkpoints that do not name theirs."""


def minor_release() -> str:
    """The minor release of PySpark, such as 4.2."""
    return ".".join(pyspark.__version__.split(".")[:2])


def is_older(release: str, other: str) -> bool:
    """Whether a minor release comes before another one."""
    one, two = (tuple(map(int, each.split("."))) for each in (release, other))
    return one < two


def check_release(releases: SpecifierSet = RELEASES) -> None:
    """Refuse a release of PySpark that is not among `releases`.

    Raises:
        EngineError: it is not; names those that are.
    """
    if not releases.contains(pyspark.__version__, prereleases=True):
        wanted = ",".join(sorted(map(str, releases), reverse=True))
        what = "queries" if releases is RELEASES else "queries on a broker"
        raise EngineError(
            f"PySpark {pyspark.__version__} does not run {what}",
            hint=f"pip install 'pyspark{wanted}'",
        )


def found_spark() -> str:
    """Say which Spark a session would start.

    Raises:
        EngineError: its release is not supported, or SPARK_HOME has another one than the package pyspark.
    """
    check_release()
    own, home = pyspark.__version__, os.environ.get("SPARK_HOME")
    if home is None:
        return f"{own}, of the package pyspark"
    release = Path(home, "RELEASE")
    # As in "Spark 4.2.1 (git revision …) built for Hadoop 3.5.0"; the package's folder has no such file.
    found = release.read_text(encoding="utf-8").split()[1:2] if release.is_file() else [own]
    if found != [own]:
        raise EngineError(
            f"SPARK_HOME ({home}) is {' '.join(found)}, and the package pyspark {own}",
            hint=f"pip install pyspark=={' '.join(found)}, or unset SPARK_HOME",
        )
    return f"{own}, in {home}"
