"""Jars by Maven coordinates, resolved by the JVM of the PySpark wheel, so that pip is all that has to be installed.

A lone coordinate is resolved with everything that it needs; of a list, exactly what it names is taken. Paths are remembered, so that a
second start asks no JVM and no network.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyspark
from pyspark.java_gateway import launch_gateway

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.environment import prepare_environment

BROKER_SETTING = "KESTREL_BROKER_JARS"
CONNECTOR_SETTING = "KESTREL_CONNECTOR_JARS"
REPOSITORIES_SETTING = "KESTREL_MAVEN_REPOSITORIES"

_BROKER = "org.apache.kafka:kafka_2.13:4.1.1"
_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

CONNECTOR_SEEN_TO_WORK = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0,"
    "org.apache.kafka:kafka-clients:3.9.1,org.apache.commons:commons-pool2:2.12.0"
)
"""Older parts that work with PySpark 4.3, for repositories that have no connector of its version."""


def broker_jars() -> tuple[Path, ...]:
    """The class path of a broker; its coordinates are the environment's `KESTREL_BROKER_JARS`, if set.

    Raises:
        EngineError: no repository has them.
    """
    jars = resolve(os.environ.get(BROKER_SETTING) or _BROKER, BROKER_SETTING)
    return (*jars, *(Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar"))


def connector_jars() -> tuple[Path, ...]:
    """The jars that Spark reads Kafka with; their coordinates are the environment's `KESTREL_CONNECTOR_JARS`, if set.

    Raises:
        EngineError: no repository has them.
    """
    return resolve(os.environ.get(CONNECTOR_SETTING) or _CONNECTOR, CONNECTOR_SETTING)


def resolve(coordinates: str, setting: str) -> tuple[Path, ...]:
    """Resolve `group:artifact:version` coordinates, separated by commas; `setting` is what a user would change.

    Raises:
        EngineError: the coordinates are malformed, or no repository has them.
    """
    wanted = tuple(part.strip() for part in coordinates.split(","))
    if any(len(part.split(":")) != 3 for part in wanted):
        raise EngineError(
            f"{setting} is no list of Maven coordinates: {coordinates}",
            hint="group:artifact:version, separated by commas",
        )
    repositories = os.environ.get(REPOSITORIES_SETTING, "")
    with _remembered(",".join(wanted), repositories) as memory:
        jars = _read(memory)
        if jars is None:
            jars = _ask(wanted, repositories, setting)
            memory.seek(0)
            memory.truncate()
            json.dump([str(jar) for jar in jars], memory)
    return jars


@contextmanager
def _remembered(coordinates: str, repositories: str) -> Iterator[IO[str]]:
    """The file that keeps the paths of some coordinates, for this process alone."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kestrel" / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{coordinates}|{repositories}".encode()).hexdigest()[:16]
    with (folder / f"{name}.json").open("a+", encoding="utf-8") as memory:
        fcntl.flock(memory, fcntl.LOCK_EX)
        memory.seek(0)
        yield memory


def _read(memory: IO[str]) -> tuple[Path, ...] | None:
    try:
        jars = tuple(Path(path) for path in json.load(memory))
    except ValueError:
        return None
    return jars if jars and all(jar.exists() for jar in jars) else None


def _ask(wanted: Sequence[str], repositories: str, setting: str) -> tuple[Path, ...]:
    with _gateway() as jvm:
        utils = jvm.org.apache.spark.util.DependencyUtils
        nowhere = jvm.scala.Option.empty()
        try:
            found = utils.resolveMavenDependencies(
                len(wanted) == 1, None, ",".join(wanted), repositories or None, None, nowhere
            )
        except Exception as error:
            raise EngineError(
                f"no Maven repository gave {', '.join(wanted)}: {_reason(error)}",
                hint=f"is the network there? {setting} names other coordinates, {REPOSITORIES_SETTING} other repositories{_also(setting)}",
            ) from error
        return tuple(Path(found.apply(at)) for at in range(found.size()))


def _also(setting: str) -> str:
    return f"; seen to work: {CONNECTOR_SEEN_TO_WORK}" if setting == CONNECTOR_SETTING else ""


def _reason(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    return str(cause.getMessage() if cause is not None else error).splitlines()[0]


@contextmanager
def _gateway() -> Iterator[Any]:
    """A JVM for a moment; what Ivy prints goes nowhere."""
    prepare_environment()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        launch: Any = launch_gateway
        gateway = launch(popen_kwargs={"stderr": nowhere, "stdout": nowhere})
        try:
            yield gateway.jvm
        finally:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(timeout=30)
