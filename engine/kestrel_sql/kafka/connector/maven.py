"""Downloads jars from Maven repositories with the Ivy of the PySpark wheel, so that users need only pip."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.conf import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.environment import prepare_environment
from kestrel_sql.spark.runtime.jvm import Java

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The options of a JVM that does one thing: compiling well and collecting beside it took two fifths of its time."""

_ADDRESS = "SPARK_LOCAL_IP"
_CHAIN, _PATIENCE = "kestrel", "patience"
_CONNECT_MS, _READ_MS = 10_000, 60_000


class Downloader:
    """Ivy in a JVM of its own, which looks at the `repositories` (URLs) one after the other.

    It neither reads ~/.m2, where a Maven build may leave the description of a jar without the jar, nor keeps a cache:
    Ivy remembers for ever which repository had a description.
    """

    def __init__(self, jvm: Java, repositories: Sequence[str]) -> None:
        """Use a JVM that is running."""
        self._jvm = jvm
        self._repositories = repositories

    def download(
        self, coordinates: Sequence[str], folder: Path, excluded: Sequence[str] | None = None
    ) -> tuple[Path, ...]:
        """Download jars into `folder`, which is emptied before.

        One coordinate with all that it needs, of several exactly those. With `excluded` (patterns `group:artifact`),
        all with what they need, except that.

        Raises:
            EngineError: no repository has them.
        """
        shutil.rmtree(folder, ignore_errors=True)
        jvm = self._jvm
        nothing = jvm.scala.Option.empty()
        said = jvm.java.io.PrintStream(jvm.java.io.ByteArrayOutputStream())
        maven = getattr(getattr(jvm.org.apache.spark.util, "MavenUtils$"), "MODULE$")
        ivy = maven.buildIvySettings(nothing, jvm.scala.Option.apply(str(folder)), False, said)
        ivy.addResolver(self._chain(ivy))
        ivy.setDefaultResolver(_CHAIN)
        patterns = jvm.java.util.ArrayList()
        for pattern in excluded or ():
            patterns.add(pattern)
        with_needs = len(coordinates) == 1 or excluded is not None
        try:
            found = maven.resolveMavenCoordinates(
                ",".join(coordinates), ivy, nothing, with_needs, jvm.PythonUtils.toSeq(patterns), False, said
            )
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise EngineError(f"no Maven repository gave {', '.join(coordinates)}: {_reason(error)}") from error
        # Ivy has copied the jars from there.
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return tuple(Path(found.apply(at)) for at in range(found.size()))

    def _chain(self, ivy: Java) -> Java:
        patience = self._jvm.org.apache.ivy.core.settings.NamedTimeoutConstraint(_PATIENCE)
        patience.setConnectionTimeout(_CONNECT_MS)
        patience.setReadTimeout(_READ_MS)
        ivy.addConfigured(patience)
        chain = self._jvm.org.apache.ivy.plugins.resolver.ChainResolver()
        chain.setName(_CHAIN)
        for number, url in enumerate(self._repositories):
            resolver = self._jvm.org.apache.ivy.plugins.resolver.IBiblioResolver()
            resolver.setName(f"repository-{number}")
            resolver.setM2compatible(True)
            resolver.setUsepoms(True)
            resolver.setRoot(url)
            resolver.setTimeoutConstraint(_PATIENCE)
            chain.add(resolver)
        return chain


@contextmanager
def open_downloader(repositories: Sequence[str]) -> Iterator[Downloader]:
    """Start a JVM for a moment; what it prints goes nowhere.

    Raises:
        EngineError: no Java 17 or newer was found, or it does not start.
    """
    prepare_environment()
    conf = SparkConf(loadDefaults=False).set("spark.driver.extraJavaOptions", SHORT_LIVED)
    with tempfile.TemporaryFile(mode="w+", errors="replace") as printed:
        launch: Any = launch_gateway
        try:
            with on_loopback():
                gateway = launch(conf, popen_kwargs={"stderr": printed, "stdout": printed})
        except PySparkRuntimeError as error:
            printed.seek(0)
            raise EngineError(f"the JVM that downloads jars did not start: {_first_line(printed.read())}") from error
        try:
            yield Downloader(gateway.jvm, repositories)
        finally:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(timeout=30)


@contextmanager
def on_loopback() -> Iterator[None]:
    """Let a JVM that starts now not look up this machine's name, which may not resolve.

    A session that starts later may run on a cluster, whose executors must reach it.
    """
    if _ADDRESS in os.environ:
        yield
        return
    os.environ[_ADDRESS] = "127.0.0.1"
    try:
        yield
    finally:
        del os.environ[_ADDRESS]


def _reason(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    return _first_line(str(cause.getMessage() if cause is not None else error)) or type(error).__name__


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")
