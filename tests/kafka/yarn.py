"""YARN for tests: a ResourceManager and NodeManagers as processes, whose containers are processes, too.

Everything is on the loopback, and the file system of all of them is HDFS.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen
from xml.sax.saxutils import escape

from kestrel_sql.kafka.broker.broker import HOST, free_port
from kestrel_sql.kafka.connector.maven import SHORT_LIVED
from kestrel_sql.spark.runtime.environment import java_command, prepare_environment
from tests.kafka.hdfs import hadoop_jars
from tests.kafka.processes import kill

NODES = 2
NODE_MB = 2600
"""Memory of a node: enough for an executor and the master of an application, too little for two executors."""

SETTINGS = {
    "spark.executor.memoryOverhead": "900m",
    # A machine's name need not resolve.
    "spark.executorEnv.SPARK_LOCAL_IP": HOST,
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": HOST,
}
"""The settings with which each node gets one executor, beside those of every cluster."""

MANAGER, WEB = "yarn.resourcemanager.address", "yarn.resourcemanager.webapp.address"
_OTHERS = tuple(f"yarn.resourcemanager.{name}.address" for name in ("scheduler", "resource-tracker", "admin"))
_SERVER = "org.apache.hadoop.yarn.server"
_WAIT_S = 120


@dataclass(frozen=True, slots=True)
class Yarn:
    """The folder of its configuration, HADOOP_CONF_DIR, and the NodeManagers, each in a process group of its own."""

    configuration: Path
    nodes: Sequence[subprocess.Popen[bytes]]


@contextmanager
def yarn_cluster(folder: Path, file_system: str, nodes: int = NODES) -> Iterator[Yarn]:
    """Run a cluster until the end of the block; each process has its folders below `folder`.

    `file_system` is the URI of the cluster's HDFS.
    """
    prepare_environment()
    configuration = folder / "conf"
    addresses = configure(configuration, file_system)
    with ExitStack() as stack:
        own = (configuration, folder / "manager")
        stack.enter_context(_process(*own, f"{_SERVER}.resourcemanager.ResourceManager", {}))
        started = [
            stack.enter_context(_process(configuration, at, f"{_SERVER}.nodemanager.NodeManager", _node(at)))
            for at in (folder / f"node{number}" for number in range(nodes))
        ]
        _await_nodes(addresses[WEB], nodes, folder)
        yield Yarn(configuration, started)


def configure(folder: Path, file_system: str) -> Mapping[str, str]:
    """Write a configuration, and give the addresses of its ResourceManager by the names of their settings."""
    addresses = {name: f"{HOST}:{free_port()}" for name in (MANAGER, WEB, *_OTHERS)}
    _write(folder / "core-site.xml", {"fs.defaultFS": file_system})
    _write(folder / "yarn-site.xml", {**addresses, **_SITE})
    _write(folder / "capacity-scheduler.xml", _QUEUES)
    return addresses


_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    # The master of a killed run may still be there when the next one comes.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}
_SITE = {
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.resource.memory-mb": str(NODE_MB),
    # Address space says nothing of what a JVM uses; YARN does check the memory that is used.
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    **{f"yarn.nodemanager{name}.address": f"{HOST}:0" for name in ("", ".localizer", ".webapp")},
}


def _node(folder: Path) -> dict[str, str]:
    return {"yarn.nodemanager.local-dirs": str(folder / "local"), "yarn.nodemanager.log-dirs": str(folder / "logs")}


def _write(path: Path, settings: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    )
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>"]), encoding="utf-8")


@contextmanager
def _process(
    configuration: Path, folder: Path, main: str, settings: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server of Hadoop until the end of the block, in an environment without the packages of this one."""
    folder.mkdir(parents=True)
    path = [configuration, *hadoop_jars(), Path(os.environ["SPARK_HOME"]) / "jars" / "*"]
    command = [java_command(), "-Xmx256m", *SHORT_LIVED.split(), "-cp", os.pathsep.join(map(str, path)), main]
    command += [word for item in settings.items() for word in ("-D", "=".join(item))]
    environment = {"HOME": str(folder), "JAVA_HOME": os.environ["JAVA_HOME"], "PATH": "/usr/bin:/bin"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True)
    try:
        yield process
    finally:
        # Containers have sessions of their own.
        kill(process)


def _await_nodes(web: str, nodes: int, folder: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not _has_nodes(web, nodes):
        assert time.monotonic() < deadline, f"YARN does not start: see {folder}/*/log"
        time.sleep(0.3)


def _has_nodes(web: str, nodes: int) -> bool:
    with suppress(OSError), urlopen(f"http://{web}/ws/v1/cluster/metrics", timeout=10) as answer:
        return int(json.load(answer)["clusterMetrics"]["activeNodes"]) == nodes
    return False
