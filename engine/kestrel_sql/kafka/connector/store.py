"""Checkpoints on a store: which stores there are, what Spark needs to reach them, and how to read one without Spark."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector.jars import s3_jars
from kestrel_sql.kafka.connector.maven import SHORT_LIVED, on_loopback
from kestrel_sql.spark.runtime.environment import log_settings, prepare_environment
from kestrel_sql.spark.runtime.jvm import Java
from kestrel_sql.spark.state.checkpoint_path import Store, StorePath, manager_settings

STORES = ("s3a", "hdfs")
"""The schemes of the stores of `--checkpoint`."""

_HADOOP = "spark.hadoop."
_PATIENT = {
    # Without this a query fails when its NameNode is away for ten seconds. S3's client waits for about a minute.
    "spark.hadoop.dfs.client.retry.policy.enabled": "true",
    "spark.hadoop.dfs.client.retry.policy.spec": "2000,30",
}
"""HDFS is asked again every two seconds, thirty times."""

_END_S = 10


def store_settings(uri: str) -> dict[str, str]:
    """Return the settings of Spark for a checkpoint on a store, among them `spark.jars` if it needs some.

    Raises:
        EngineError: no repository has the jars.
    """
    own = {"spark.jars": s3_jars().setting} if uri.startswith("s3a:") else _PATIENT
    return {**own, **manager_settings(uri)}


@contextmanager
def open_store_alone(uri: str, settings: Mapping[str, str]) -> Iterator[StorePath]:
    """Reach a checkpoint on a store until the end of the block, through a JVM without a session of Spark.

    Args:
        uri: the checkpoint.
        settings: settings as for Spark; those of `spark.hadoop.` count.

    Raises:
        EngineError: it does not answer, has no such bucket, or refuses the credentials; or no Java was found.
    """
    prepare_environment()
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.driver.extraJavaOptions", f"{SHORT_LIVED} {log_settings()}")
    if uri.startswith("s3a:"):
        conf.set("spark.driver.extraClassPath", os.pathsep.join(map(str, s3_jars().paths)))
    launch: Any = launch_gateway
    with on_loopback():
        gateway = launch(conf)
    try:
        store = Store(gateway.jvm, uri, lambda: hadoop_configuration(gateway.jvm, settings))
        store.check(writes=False)
        yield StorePath(store, uri.rstrip("/"))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise EngineError(str(error.strerror), hint="check the store and try again") from error
    finally:
        gateway.shutdown()
        # The JVM ends with its standard input.
        gateway.proc.stdin.close()
        gateway.proc.wait(_END_S)


def hadoop_configuration(jvm: Java, settings: Mapping[str, str]) -> Java:
    """Return Hadoop's configuration in a JVM, with those of the settings of Spark that are for Hadoop."""
    conf = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in settings.items():
        if name.startswith(_HADOOP):
            conf.set(name.removeprefix(_HADOOP), value)
    return conf
