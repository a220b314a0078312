"""Opens the Spark session of a run against a broker."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import SPARK_REDACTION
from kestrel_sql.kafka.cluster.cluster import check_executors, cluster_settings, is_cluster
from kestrel_sql.kafka.cluster.yarn import YARN, await_manager
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.connector.store import hadoop_configuration, store_settings
from kestrel_sql.kafka.run.run import RunSettings, StoreUri
from kestrel_sql.spark.releases import BROKER_RELEASES, check_release
from kestrel_sql.spark.runtime.environment import is_on_this_machine, keep_memory
from kestrel_sql.spark.runtime.jvm import Java
from kestrel_sql.spark.runtime.session import FIRST_COMPILER, JAVA_OPTIONS, UNCOMPILED
from kestrel_sql.spark.runtime.setting_errors import open_given

_JARS = "spark.jars"
_SPECULATION = "spark.speculation"
_STATES = "spark.sql.shuffle.partitions"
_CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

SESSION = {
    "spark.redaction.regex": SPARK_REDACTION,
    "spark.sql.redaction.options.regex": SPARK_REDACTION,
    "spark.sql.streaming.numRecentProgressUpdates": "200",
    # How long a query without new records waits. A trigger with an interval waits for a time of day instead: when the
    # clock was set back by an hour, every query stood still for an hour.
    "spark.sql.streaming.pollingDelay": "200ms",
    # A batch writes what it changed, and about every tenth one an archive, whose manifest grows by each (ADR 41).
    _CHANGELOGS: "true",
    # Spark's source keeps a consumer for each partition of each query, with five descriptors, also when the query has
    # ended. An idle one, whose query has had no records meanwhile, is opened again.
    "spark.kafka.consumer.cache.timeout": "30s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "10s",
    # How often Spark writes the archives that are due. A restart repeats the changes since the last one.
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
}
"""What every run against a broker sets; the settings of a user win."""


def open_for_brokers(settings: RunSettings, say: Callable[[str], None]) -> SparkSession:
    """Open a session with Spark's connector, and wait for executors where the master has some.

    Raises:
        EngineError: this release of PySpark has no sources for it, no repository has the connector, Java is missing, a
            setting is refused, YARN does not answer, or no executor comes.
    """
    check_release(BROKER_RELEASES)
    given, master = settings.spark, settings.master
    if given.get(_SPECULATION, "").lower() == "true":
        raise EngineError(
            f"{_SPECULATION} cannot be on: two tasks with the same records would end each other's transactions",
            hint=f"leave out {_SPECULATION}",
        )
    jars = connector_jars()
    if jars.note:
        say(jars.note)
    checkpoint = settings.checkpoint
    store = store_settings(checkpoint.text) if isinstance(checkpoint, StoreUri) else {}
    paths = ",".join(filter(None, (jars.setting, store.get(_JARS), given.get(_JARS))))
    # Such a run ends before Spark writes an archive, so every further one would repeat the changes of all before it.
    ending = {_CHANGELOGS: "false"} if settings.until_caught_up else {}
    kept = {f"spark.executorEnv.{name}": value for name, value in keep_memory().items()}
    extra = {**SESSION, **kept, **ending, **store, **given, _JARS: paths, **cluster_settings(master, given)}
    if settings.passes_blobs and is_on_this_machine(master):
        extra = {**UNCOMPILED, **extra, JAVA_OPTIONS: f"{FIRST_COMPILER} {given.get(JAVA_OPTIONS, '')}".rstrip()}
    spark = open_given(master, extra, given, lambda jvm: _await_cluster(jvm, settings, say))
    if is_cluster(master):
        say(f"waiting for executors of {master}")
        check_executors(spark, master)
    if _STATES not in given:
        spark.conf.set(_STATES, str(spark.sparkContext.defaultParallelism))
    return spark


def _await_cluster(jvm: Java, settings: RunSettings, say: Callable[[str], None]) -> None:
    if settings.master == YARN:
        await_manager(jvm, hadoop_configuration(jvm, settings.spark), settings.patience, say)
