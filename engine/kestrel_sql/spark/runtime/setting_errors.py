"""Opens Spark with settings of the user. A setting that does not do is named in a sentence, with what Spark says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Thread
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.jvm import Java
from kestrel_sql.spark.runtime.session import SETTINGS, open_session
from kestrel_sql.systems import most_files

_FIXED = (
    "spark.python.daemon.module",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.session.timeZone",
    "spark.sql.streaming.stateStore.compression.codec",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.variable.substitute",
)
"""Settings of ours that results or state depend on."""

_PLACE = ("spark.master", "spark.remote", "spark.api.mode", "spark.submit.deployMode")
"""Settings that say where Spark runs, as `--master` does."""

_FILES = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
"""Settings that list files. Spark leaves out those that do not exist."""

_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential")
_TELLING = 3
"""A value with fewer characters stands in messages by chance."""

_ENDS = {52: "no memory is left", 53: "no folder for temporary files can be made"}
"""What the exit codes mean by which Spark ends its JVM without a word."""

_MANY_FILES = 1024
"""More than a JVM has open that runs queries."""

_END_S = 10.0
_NOISE = re.compile(r"(WARNING|NOTE|Picked up|\s)")


def open_given(
    master: str,
    settings: Mapping[str, str],
    given: Mapping[str, str],
    check: Callable[[Java], None] = lambda _: None,
) -> SparkSession:
    """Start Spark with `settings`, among which are those that the user has `given`.

    `check` is called with the JVM before Spark starts in it.

    Raises:
        EngineError: Spark refuses a setting, or does not start; or no Java 17 or newer was found.
    """
    _check(given)
    java = _Java(master, check)
    try:
        spark = open_session(master, settings, java.start)
        _read(spark, given)
    except (PySparkException, Py4JError, ConnectionError) as error:
        printed = java.printed()
        reason = _reason(error, printed)
        named = _named(given, "\n".join([printed, *_messages(error)]))
        options = [f"--master {master}", *(f"--spark-conf {_shown(*setting)}" for setting in given.items())]
        raise refused(named, reason) or EngineError(
            f"Spark did not start: {reason}", hint=_few_files() or f"check {', '.join(options)}"
        ) from error
    java.is_up()
    return spark


@contextmanager
def setting_errors(given: Mapping[str, str]) -> Iterator[None]:
    """Turn what Spark throws because of a setting that the user has given into an error that names it."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        known = refused(_named(given, "\n".join(_messages(error))), _reason(error, ""))
        if known is None:
            raise
        raise known from error


def causes(error: Java) -> Iterator[Java]:
    """Yield an exception of Java and all its causes, the innermost last."""
    while error is not None:
        yield error
        error = error.getCause()


def _few_files() -> str:
    """What to do where Java may open few files, since it does not say so itself; empty if it may open enough."""
    limits = most_files()
    if limits is None or not 0 <= limits[1] < _MANY_FILES:
        return ""
    return f"it may open {limits[1]} files and sockets: raise the limit (ulimit -n)"


def refused(settings: Mapping[str, str], reason: str) -> EngineError | None:
    """Return the error for settings that Spark does not take; None if there are none."""
    if not settings:
        return None
    shown = ", ".join(_shown(*setting) for setting in settings.items())
    for key, value in settings.items():
        if _SECRET.search(key) and value:
            reason = reason.replace(value, "***")
    return EngineError(
        f"Spark refuses {shown}: {reason}", hint="give another value with --spark-conf, or leave the setting out"
    )


def _shown(key: str, value: str) -> str:
    return key if _SECRET.search(key) else f"{key}={value}"


def _check(given: Mapping[str, str]) -> None:
    """Refuse what Spark itself would take, and then not use or not survive."""
    for key, value in given.items():
        if not key.startswith("spark."):
            raise EngineError(
                f"unknown Spark setting: {key}", hint=f"their names begin with spark.; Hadoop's are spark.hadoop.{key}"
            )
        if key in _PLACE:
            raise EngineError(f"--spark-conf cannot set {key}", hint="--master URL says where Spark runs")
        if key in _FIXED and value != SETTINGS[key]:
            raise EngineError(
                f"{key} is {SETTINGS[key]} in every run, so --spark-conf cannot set it to {value}",
                hint="leave it out: the results or the state of queries depend on it",
            )
        if key in _FILES:
            for file in (name.strip().partition("#")[0].removeprefix("file:") for name in value.split(",")):
                if file and not re.match(r"[A-Za-z][\w+.-]*:|.*[*?\[{]", file) and not Path(file).exists():
                    raise EngineError(f"{key} names {file}, which does not exist", hint="check the path")


def _read(spark: SparkSession, given: Mapping[str, str]) -> None:
    """Have Spark read the given settings that it knows: it reads most of them only when a query needs them."""
    session: Any = spark._jsparkSession  # noqa: SLF001 - the one way to its JVM
    session.sessionState()
    jvm: Any = spark._jvm  # noqa: SLF001 - the same
    config = jvm.org.apache.spark.internal.config
    values = jvm.java.util.HashMap()
    for key, value in given.items():
        values.put(key, value)
    reader = config.ConfigReader(values)
    for key in given:
        entry = config.ConfigEntry.findEntry(key)
        if entry is not None:
            entry.readFrom(reader)


class _Java:
    """The JVM of a session. What it prints before the session is there says why it does not start."""

    def __init__(self, master: str, check: Callable[[Java], None]) -> None:
        self._master = master
        self._check = check
        self._text = b""
        self._waits = True
        self._thread: Thread | None = None

    def start(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Have PySpark use a JVM with these settings, unless it has one; return the settings."""
        if SparkContext._gateway is None:  # noqa: SLF001 - PySpark does not pass on where its JVM prints
            conf = SparkConf().setMaster(self._master)
            for name, value in settings.items():
                conf.set(name, value)
            reading, writing = os.pipe()
            self._thread = Thread(target=self._take, args=(reading,), name="what the JVM prints", daemon=True)
            self._thread.start()
            launch: Any = launch_gateway
            use: Any = SparkContext._ensure_initialized  # noqa: SLF001 - the same
            try:
                use(gateway=launch(conf, {"stderr": writing}))
            finally:
                os.close(writing)
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - the same
        self._check(jvm)
        return settings

    def is_up(self) -> None:
        """Pass on what the JVM has printed, and will print."""
        self._waits = False
        os.write(2, self._text)

    def printed(self) -> str:
        """Return what the JVM printed, to its end if it has ended."""
        gateway: Any = SparkContext._gateway  # noqa: SLF001 - the same
        if self._thread is not None and (gateway is None or _exit_code(gateway) is not None):
            self._thread.join(_END_S)
        return self._text.decode(errors="replace")

    def _take(self, reading: int) -> None:
        while said := os.read(reading, 1 << 16):
            if self._waits:
                self._text += said
            else:
                os.write(2, said)


def _exit_code(gateway: Java) -> int | None:
    """The exit code of a JVM that has ended or is about to, None of one that runs."""
    with suppress(TimeoutExpired, AttributeError):
        return int(gateway.proc.wait(1.0))
    return None


def _reason(error: Exception, printed: str) -> str:
    origin = _origin(error)
    if origin is not None:
        inner = [cause for cause in causes(origin) if cause.getMessage()]
        if inner:
            message = _sentence(str(inner[-1].getMessage()))
            return message if " " in message else f"{inner[-1].getClass().getSimpleName()}: {message}"
        return str(origin.getClass().getSimpleName())
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - the one way to the JVM's process
    code = None if gateway is None else _exit_code(gateway)
    if code in _ENDS:
        return _ENDS[code]
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not _NOISE.match(line)]
    thrown = [line for line in lines if line.startswith("Exception in thread")]
    said = re.sub(r'^Exception in thread "[^"]*" (?:[\w.$]+: )?', "", (thrown or lines or [""])[0])
    return _sentence(said) if said else "its JVM has ended" if code is not None else _sentence(str(error))


def _messages(error: Exception) -> list[str]:
    origin = _origin(error)
    return [str(error)] if origin is None else [str(cause.getMessage()) for cause in causes(origin)]


def _origin(error: Exception) -> Java | None:
    """The exception of Java behind one of Python; None if there is none."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _named(given: Mapping[str, str], text: str) -> dict[str, str]:
    """Return the settings whose names stand in a text, else those whose values do."""
    by_key = {key: value for key, value in given.items() if re.search(rf"{re.escape(key)}(?![\w.])", text)}
    return by_key or {key: value for key, value in given.items() if len(value) >= _TELLING and value in text}


def _sentence(text: str) -> str:
    """The first line of a message of Spark, without the codes around it."""
    first = next(iter(text.strip().splitlines()), "")
    return re.sub(r"^\[[A-Z][\w.]*\] | SQLSTATE: \w+$", "", first.strip()).strip().rstrip(".")
