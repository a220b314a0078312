"""Runs on YARN: what Spark's client needs besides, and whether the ResourceManager is there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.jvm import Java
from kestrel_sql.spark.runtime.setting_errors import causes

YARN = "yarn"
"""The master URL of Spark; Hadoop's configuration says where the cluster is."""

_SHIPPED = "PYSPARK_ARCHIVES_PATH"
_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_ADDRESS = "yarn.resourcemanager.address"
_PAUSE_S = 1.0

_SOON = {
    "yarn.resourcemanager.connect.max-wait.ms": "2000",
    "yarn.resourcemanager.connect.retry-interval.ms": "1000",
    "ipc.client.connect.max.retries": "0",
    "ipc.client.connect.max.retries.on.timeouts": "0",
    "ipc.client.connect.timeout": "10000",
}
"""Hadoop's client asks in vain for a quarter of an hour, and says nothing; of two ResourceManagers it asks both."""

_ABSENT = frozenset(
    {
        *("ConnectException", "ConnectTimeoutException", "SocketTimeoutException", "NoRouteToHostException"),
        *("UnknownHostException", "EOFException", "StandbyException"),
    }
)
"""What Java throws where nobody answers, or nobody in charge."""


def prepare_yarn() -> None:
    """Set the environment variable by which Spark does not look for `pyspark.zip`, which our SPARK_HOME has not.

    PySpark travels with the engine.
    """
    library = Path(pyspark.__file__).parent / "python" / "lib"
    os.environ.setdefault(_SHIPPED, ",".join(map(str, library.glob("py4j-*.zip"))))


def await_manager(jvm: Java, hadoop: Java, patience: float, say: Callable[[str], None]) -> None:
    """Wait until the ResourceManager answers, for `patience` seconds.

    Args:
        jvm: a JVM with Hadoop's classes.
        hadoop: the configuration of Hadoop in this JVM.
        patience: in seconds.
        say: shows what the run waits for.

    Raises:
        EngineError: it does not answer, or refuses the user; says where its address comes from.
    """
    conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(hadoop)
    for name, value in _SOON.items():
        conf.set(name, value)
    since, told = time.monotonic(), False
    manager = f"YARN's ResourceManager {conf.get(_ADDRESS)}"
    while True:
        try:
            nodes = _running_nodes(jvm, conf)
        except Py4JJavaError as error:
            found = [*causes(error.java_exception)]
            absent = any(each.getClass().getSimpleName() in _ABSENT for each in found)
            if absent and not told:
                say(f"{manager} does not answer; waiting for it up to {patience:.0f} s")
                told = True
            if not absent or time.monotonic() - since > patience:
                problem = "does not answer" if absent else f"refuses: {found[-1].getMessage()}"
                raise EngineError(f"{manager} {problem}", hint=_hint()) from error
            time.sleep(_PAUSE_S)
        else:
            if not nodes:
                say(f"{manager} has no running NodeManager; the run begins when it has")
            return


def _running_nodes(jvm: Java, conf: Java) -> int:
    client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
    client.init(conf)
    client.start()
    try:
        return int(client.getYarnClusterMetrics().getNumActiveNodeManagers())
    finally:
        client.stop()


def _hint() -> str:
    named = [f"{name} ({os.environ[name]})" for name in _FOLDERS if os.environ.get(name)]
    where = " or ".join(named) or _FOLDERS[0]
    return f"is it running? yarn-site.xml in {where} names its address, {_ADDRESS}"
