"""The jars of Spark's Kafka connector and of `kestrel broker`: which ones, and where they are on this machine.

What was found once is remembered in the user's cache folder, so that later starts ask no JVM and no network.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import pyspark

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector.maven import open_downloader
from kestrel_sql.systems import lock

BROKER_SETTING = "KESTREL_BROKER_JARS"
CONNECTOR_SETTING = "KESTREL_CONNECTOR_JARS"
S3_SETTING = "KESTREL_S3_JARS"
REPOSITORIES_SETTING = "KESTREL_MAVEN_REPOSITORIES"

_CENTRAL = "https://repo1.maven.org/maven2/"
_CENTRAL_SETTING = "DEFAULT_ARTIFACT_REPOSITORY"
"""The environment variable by which Spark, too, takes another repository for Maven Central."""

_BROKER = "org.apache.kafka:kafka_2.13:4.1.1"
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"

SEEN_TO_WORK = "4.2.0"
"""The newest connector of an older version that was seen to work with PySpark 4.3."""

_PARTS_SEEN_TO_WORK = (
    f"{_CONNECTOR}:{SEEN_TO_WORK}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)

HADOOP = "3.5.0"
"""The version of Hadoop in PySpark's wheel, which is that of `hadoop-aws`."""

_SDK = "2.35.4"
"""The version of Amazon's SDK that this Hadoop was built with."""

_S3 = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"software.amazon.awssdk:s3-transfer-manager:{_SDK}",
    f"software.amazon.awssdk:sts:{_SDK}",
    # Has the checkpoint manager that completes an object or writes none; there is none for 4.2 and 4.3 yet.
    "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1",
)
_S3_EXCLUDED = (
    # All services of Amazon in a jar of 686 MB.
    "software.amazon.awssdk:bundle",
    # What Spark has, and other clouds.
    *(f"{group}:*" for group in ("io.netty", "org.apache.httpcomponents", "org.slf4j", "org.eclipse.jetty")),
    *(f"{group}:*" for group in ("com.fasterxml.jackson.core", "com.fasterxml.jackson.dataformat")),
    *(f"org.apache.hadoop:hadoop-{name}" for name in ("client-*", "azure*", "huaweicloud", "cloud-storage", "cos")),
    *("joda-time:*", "com.google.cloud.bigdataoss:*", "com.squareup.*:*", "org.wildfly.openssl:*"),
    *("commons-logging:*", "commons-codec:*"),
)

_LOOK_AGAIN_S = 7 * 24 * 3600
"""After this time it is asked again whether the connector of PySpark's own version has come."""


class Jars(msgspec.Struct, frozen=True):
    """Jars on this machine; `note` says, if anything, what a user should know of their version."""

    paths: tuple[Path, ...]
    note: str = ""

    @property
    def setting(self) -> str:
        """The value of `spark.jars`."""
        return ",".join(map(str, self.paths))


class _Choice(msgspec.Struct, frozen=True):
    """Coordinates, `group:artifact:version`: one with everything that it needs, of several exactly these.

    `note` is what to say of them. With `excluded`, all come with what they need, except that.
    """

    coordinates: tuple[str, ...]
    note: str = ""
    excluded: tuple[str, ...] | None = None


def broker_jars() -> tuple[Path, ...]:
    """The class path of a broker; its coordinates are the environment's `KESTREL_BROKER_JARS`, if set.

    Raises:
        EngineError: no repository has them.
    """
    given = os.environ.get(BROKER_SETTING)
    jars = _find(_choices(given, BROKER_SETTING) if given else (_Choice((_BROKER,)),), BROKER_SETTING)
    return (*jars.paths, *(Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar"))


def connector_jars() -> Jars:
    """The jars that Spark reads Kafka with.

    Of PySpark's version or, where no repository has them, of one that was seen to work.

    The environment's `KESTREL_CONNECTOR_JARS`, if set, names other coordinates.

    Raises:
        EngineError: no repository has them.
    """
    return _find(_connectors(), CONNECTOR_SETTING)


def connector_here() -> Jars | None:
    """The same, without looking into a repository: None where no run has downloaded them yet.

    Raises:
        EngineError: they are not here, and cannot be kept here.
    """
    with _memory(_connectors(), _repositories()) as memory:
        return _read(memory)[0]


def _connectors() -> tuple[_Choice, ...]:
    given = os.environ.get(CONNECTOR_SETTING)
    own = pyspark.__version__
    note = f"no Maven repository has Spark's Kafka connector {own} yet: using {SEEN_TO_WORK}, which works with it"
    usual = (_Choice((f"{_CONNECTOR}:{own}",)), _Choice(_PARTS_SEEN_TO_WORK, note))
    return _choices(given, CONNECTOR_SETTING) if given else usual


def s3_jars() -> Jars:
    """The jars that Hadoop reaches S3 with; the environment's `KESTREL_S3_JARS`, if set, names other coordinates.

    Raises:
        EngineError: no repository has them.
    """
    given = os.environ.get(S3_SETTING)
    return _find(_choices(given, S3_SETTING) if given else (_Choice(_S3, excluded=_S3_EXCLUDED),), S3_SETTING)


def _choices(given: str, setting: str) -> tuple[_Choice, ...]:
    wanted = tuple(part.strip() for part in given.split(","))
    if any(len(part.split(":")) != 3 for part in wanted):
        raise EngineError(
            f"{setting} must list Maven coordinates, got {given}",
            hint="group:artifact:version, separated by commas",
        )
    return (_Choice(wanted),)


def _find(choices: Sequence[_Choice], setting: str) -> Jars:
    """Give the jars of the first choice that the repositories have; `setting` is what a user would change."""
    repositories = _repositories()
    with _memory(choices, repositories) as memory:
        known, look_again = _read(memory)
        if known is not None and (time.time() < look_again or not memory.writable()):
            return known
        if not memory.writable():
            raise _not_here()
        try:
            jars = _download(choices if known is None else choices[:1], repositories)
        except EngineError as error:
            if known is None:
                hint = (
                    f"is the network there? {setting} names other coordinates, {REPOSITORIES_SETTING} other"
                    " repositories"
                )
                raise EngineError(error.message, hint=hint) from error
            jars = known
        memory.seek(0)
        memory.truncate()
        json.dump({"jars": [str(jar) for jar in jars.paths], "note": jars.note, "found": time.time()}, memory)
        memory.flush()
    return jars


def _download(choices: Sequence[_Choice], repositories: Sequence[str]) -> Jars:
    errors: list[EngineError] = []
    with open_downloader(repositories) as downloader:
        # A repository that did not answer in time may answer now; each download begins with an empty cache.
        for choice in (*choices, *choices):
            folder = _folder() / _digest(choice.coordinates, repositories)
            try:
                return Jars(downloader.download(choice.coordinates, folder, choice.excluded), choice.note)
            except EngineError as error:
                errors.append(error)
    raise errors[0]


def _repositories() -> tuple[str, ...]:
    """The URLs of the user's repositories, and behind them Maven Central."""
    own = os.environ.get(REPOSITORIES_SETTING, "").split(",")
    return (*filter(None, map(str.strip, own)), os.environ.get(_CENTRAL_SETTING) or _CENTRAL)


@contextmanager
def _memory(choices: Sequence[_Choice], repositories: Sequence[str]) -> Iterator[IO[str]]:
    """The file that remembers what was found for the choices, for this process alone unless it is read-only."""
    coordinates = [each for choice in choices for each in choice.coordinates]
    path = _folder() / f"{_digest(coordinates, repositories)}.json"
    writable = os.access(path if path.exists() else path.parent, os.W_OK)
    if not writable and not path.exists():
        raise _not_here()
    with path.open("a+" if writable else "r", encoding="utf-8") as memory:
        if writable:
            lock(memory, waits=True)
        memory.seek(0)
        yield memory


def _read(memory: IO[str]) -> tuple[Jars | None, float]:
    """What is remembered, if it is still there, and until when it holds."""
    try:
        known = json.load(memory)
        jars = Jars(tuple(Path(path) for path in known["jars"]), known["note"])
        look_again = known["found"] + _LOOK_AGAIN_S if jars.note else float("inf")
    except (ValueError, KeyError, TypeError):
        return None, 0
    return (jars, look_again) if jars.paths and all(jar.exists() for jar in jars.paths) else (None, 0)


def _folder() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kestrel" / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _not_here() -> EngineError:
    return EngineError(
        f"{_folder()} does not have the jars of a run, and it is read-only",
        hint="run `kestrel prepare` as its owner, or set XDG_CACHE_HOME to a folder that you may write to",
    )


def _digest(coordinates: Sequence[str], repositories: Sequence[str]) -> str:
    return hashlib.sha256(f"{','.join(coordinates)}|{','.join(repositories)}".encode()).hexdigest()[:16]
