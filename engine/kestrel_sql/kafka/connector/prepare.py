"""What a machine or an image can have ready before the first run.

The jars of the connector, and the archive of Spark's classes.

    python -m kestrel_sql.kafka.connector.prepare PATH    a session that leaves the archive at PATH
    python -m kestrel_sql.kafka.connector.prepare         makes the archive where sessions look for it
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.connector.warm_up import rehearse
from kestrel_sql.spark.runtime.class_archive import TRIED, archive_path, make_base, making_options
from kestrel_sql.spark.runtime.environment import prepare_environment
from kestrel_sql.spark.runtime.session import open_session

_LONGEST_S = 600
_LAST = 19
"""The niceness of a process that only works when no other wants to."""


def prepare(say: Callable[[str], None]) -> Path:
    """Download the connector's jars and make the archive; give its path, and `say` what a user should know of the jars.

    Raises:
        EngineError: no repository has the jars, or the JVM left no archive.
    """
    if note := connector_jars().note:
        say(note)
    return make_archive()


def make_archive() -> Path:
    """Make the archive of Spark's classes, and give its path.

    Raises:
        EngineError: the JVM left no archive.
    """
    path = archive_path()
    fresh = path.with_suffix(f".{os.getpid()}")
    command = [sys.executable, "-m", "kestrel_sql.kafka.connector.prepare", str(fresh)]
    try:
        prepare_environment()
        make_base(path)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
        if done.returncode or not fresh.exists():
            words = done.stderr.strip().splitlines()
            raise EngineError(
                f"the JVM did not write the archive of its classes: {words[-1] if words else 'it said nothing'}"
            )
        fresh.replace(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"the archive {path} cannot be made: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    return path


def archive_in_background() -> None:
    """Make the archive in a process that outlives this one and lets others run first.

    An environment tries this once: where it fails, sessions do without.
    """
    path = archive_path()
    try:
        path.with_suffix(TRIED).touch(exist_ok=False)
    except OSError:
        return
    subprocess.Popen(
        [sys.executable, "-m", "kestrel_sql.kafka.connector.prepare"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _leave_archive(path: Path) -> None:
    """Let a session do what a run does, so that the classes for it are in the archive that it leaves."""
    # The archive holds no compiled code: Java's best compiler took a sixth of the time.
    options = f"{making_options(path)} -XX:TieredStopAtLevel=1"
    spark = open_session("local[2]", {"spark.driver.extraJavaOptions": options, "spark.sql.shuffle.partitions": "2"})
    failure = rehearse(spark)
    spark.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - the one way to the JVM's process, whose end is waited for
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_LONGEST_S)
    if failure is not None:
        raise failure


if __name__ == "__main__":
    if sys.argv[1:]:
        _leave_archive(Path(sys.argv[1]))
    else:
        os.nice(_LAST)
        make_archive()
