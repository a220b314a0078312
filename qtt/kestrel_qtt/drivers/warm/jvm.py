"""What PySpark does not offer: use a JVM whose Spark another process started, and leave it as it was."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Mapping
from typing import IO, Any, TypedDict

from py4j.finalizer import ThreadSafeFinalizer
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_PORT = "PYSPARK_GATEWAY_PORT"
_SECRET = "PYSPARK_GATEWAY_SECRET"
_DROP_IDLE_WORKERS = "org$apache$spark$api$python$PythonWorkerFactory$$cleanupIdleWorkers"
_REFERENCE = re.compile(r"o\d+$")


class Started(TypedDict):
    """A JVM that was started: the file descriptor of its standard input, its process id, and its Py4J gateway."""

    pipe: int
    process: int
    port: int
    secret: str


def start(settings: Mapping[str, str], log: IO[bytes]) -> Started:
    """Start a JVM that lives as long as its standard input is open, and have PySpark use it.

    Raises:
        PySparkRuntimeError: it ended at once; `log` says why.
    """
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    gateway: Any = launch_gateway(conf, {"stdout": log, "stderr": log, "start_new_session": True})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)
    java = gateway.java_parameters
    return {
        "pipe": gateway.proc.stdin.fileno(),
        "process": gateway.proc.pid,
        "port": java.port,
        "secret": java.auth_token,
    }


def close_pipe() -> None:
    """Close this process's end of the JVM's standard input: somebody else has another."""
    gateway: Any = SparkContext._gateway
    gateway.proc.stdin.close()


def forget() -> None:
    """Have PySpark start anew, as if it had used no JVM."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def join(port: int, secret: str) -> SparkSession:
    """Open a session of this process's own on the Spark that runs behind a gateway.

    Raises:
        Exception: py4j's or PySpark's own, where no Spark runs there any more.
    """
    os.environ |= {_PORT: str(port), _SECRET: secret}
    try:
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    default = getattr(gateway.jvm, "org.apache.spark.sql.classic.SparkSession").getDefaultSession().get()
    jsc = gateway.jvm.JavaSparkContext(default.sparkContext())
    context = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jconf=jsc.getConf()))
    return SparkSession(context, default.newSession())


def drop_workers(spark: SparkSession, *, daemons: bool) -> None:
    """End the Python workers that wait for tasks, with `daemons` also the processes that they are forked from."""
    jvm: Any = spark._jvm
    of_name = jvm.java.lang.Class.forName
    held = of_name("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")
    held.setAccessible(True)
    factories = held.get(spark._jsc.sc().env())
    for factory in jvm.scala.jdk.javaapi.CollectionConverters.asJava(factories).values():
        factory.stop() if daemons else getattr(factory, _DROP_IDLE_WORKERS)()
    if daemons:
        factories.clear()


def heap_in_use(spark: SparkSession) -> float:
    """The share of the largest heap that the JVM has taken from the machine."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    return float(runtime.totalMemory() / runtime.maxMemory())


def let_go(spark: SparkSession) -> None:
    """Stop what still runs, and give up all references to objects of the JVM, which could not be collected there."""
    for query in spark.streams.active:
        query.stop()
    drop_workers(spark, daemons=False)
    gc.collect()
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    for name in list(ThreadSafeFinalizer.finalizers):
        if found := _REFERENCE.search(name):
            client.garbage_collect_object(found[0])
