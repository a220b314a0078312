"""Opening Spark beside other work: the JVM and the Python workers start while statements are planned and topics made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread

import pyarrow as pa
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import SPARK_REDACTION
from kestrel_sql.kafka.cluster.cluster import check_executors, cluster_settings, is_cluster
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.spark.runtime.session import open_session

_STATES = "spark.sql.shuffle.partitions"

SESSION = {
    "spark.redaction.regex": SPARK_REDACTION,
    "spark.sql.redaction.options.regex": SPARK_REDACTION,
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.ui.showConsoleProgress": "false",
}
"""What every run against a broker sets; the settings of a user win."""


def open_for_brokers(settings: RunSettings, say: Callable[[str], None]) -> SparkSession:
    """Open a session with Spark's connector, and wait for executors where the master has some.

    Raises:
        EngineError: no repository has the connector, Java is missing, or no executor comes.
    """
    given, master = settings.spark, settings.master
    jars = connector_jars()
    if jars.note:
        say(jars.note)
    extra = {"spark.jars": jars.setting, **SESSION, **given, **cluster_settings(master, given)}
    spark = open_session(master, extra)
    if is_cluster(master):
        say(f"waiting for executors of {master}")
        check_executors(spark, master)
    if _STATES not in given:
        spark.conf.set(_STATES, str(spark.sparkContext.defaultParallelism))
    return spark


class Opening:
    """A session that is being opened by a thread, which dies with the process: who does not need the session need not wait for it."""

    def __init__(self, open_spark: Callable[[], SparkSession]) -> None:
        """Begin."""
        self._opened: Future[SparkSession] = Future()
        Thread(target=self._open, args=(open_spark,), name="opening Spark", daemon=True).start()

    def session(self) -> SparkSession:
        """Wait for the session.

        Raises:
            EngineError: it could not be opened.
        """
        return self._opened.result()

    def _open(self, open_spark: Callable[[], SparkSession]) -> None:
        try:
            spark = open_spark()
        except BaseException as error:  # noqa: BLE001 - raised where the session is waited for
            self._opened.set_exception(error)
            return
        self._opened.set_result(spark)
        warm(spark)


def warm(spark: SparkSession) -> None:
    """Run a job of no rows through Python and a shuffle, so that workers, modules and classes are there when the first records come."""
    try:
        tasks = spark.sparkContext.defaultParallelism
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(_pass, "id BIGINT")
        rows.repartition(tasks).sortWithinPartitions("id").mapInArrow(_pass, "id BIGINT").toArrow()
    except Exception:  # noqa: BLE001 - PySpark fails in ways of its own when its session is stopped meanwhile
        # Nobody waits for this job, which ends with the session; what hinders it hinders the queries, too, and they say so.
        return


def _pass(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
