"""Ends the threads that Spark leaves behind the Python workers that it starts on the driver."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_MONITOR = "org.apache.spark.api.python.PythonWorkerFactory$MonitorThread"
_FACTORY = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"


def end_monitors(spark: SparkSession) -> None:
    """End the threads that look after idle workers where there are none.

    Each start of a stateful operator, or of a source that merges topics, makes a factory for one worker on the driver,
    and with it such a thread, which never ends. It holds what it inherited from the thread of the query: 0.2 MB.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - Spark has no other way
    lang, array = jvm.java.lang, spark.sparkContext._gateway.new_array  # type: ignore[union-attr]  # noqa: SLF001
    find, handles, kind = lang.Class.forName, lang.invoke.MethodHandles, lang.invoke.MethodType.methodType
    is_monitor = handles.publicLookup().bind(
        find(_MONITOR), "isInstance", kind(lang.Boolean.TYPE, find("java.lang.Object"))
    )
    proxy = lang.invoke.MethodHandleProxies.asInterfaceInstance
    wanted = proxy(find("java.util.function.Predicate"), is_monitor)
    monitors = lang.Thread.getAllStackTraces().keySet().stream().filter(wanted).toArray()
    handled = array(lang.Class, 2)
    handled[0], handled[1] = find("java.lang.Thread"), find("java.lang.Throwable")
    # An interrupted thread would print a trace.
    silence = proxy(find("java.lang.Thread$UncaughtExceptionHandler"), handles.empty(kind(lang.Void.TYPE, handled)))
    for thread in monitors:
        if not getattr(thread, _FACTORY)().useDaemonEnabled():
            thread.setUncaughtExceptionHandler(silence)
            thread.interrupt()
