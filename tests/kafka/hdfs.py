"""HDFS for tests: a NameNode and a DataNode in a process of their own.

python -m tests.kafka.hdfs FOLDER          (prints the URI, and ends with its standard input)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.java_gateway import launch_gateway

from kestrel_sql.kafka.connector.jars import HADOOP, _Choice, _find
from kestrel_sql.spark.runtime.environment import prepare_environment

_JARS = _Choice(
    (
        f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP}",
        # The ResourceManager signs with it; the jar above lacks it.
        "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    ),
    # Spark has them.
    excluded=("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime", "org.slf4j:*"),
)
_URI = "hdfs://"


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """Run a cluster until the end of the block, and give its URI."""
    with (folder / "hdfs.log").open("wb") as log:
        command = [sys.executable, "-m", "tests.kafka.hdfs", str(folder / "hdfs")]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        uri = next((line.strip() for line in process.stdout if line.startswith(_URI)), "")
        assert uri, (folder / "hdfs.log").read_text(encoding="utf-8")[-3000:]
        yield uri
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def hadoop_jars() -> tuple[Path, ...]:
    """The servers of HDFS and YARN, as far as Spark's jars do not have them."""
    return _find((_JARS,), "KESTREL_HDFS_JARS").paths


def main(folder: str) -> None:
    """Run a cluster until the standard input ends."""
    prepare_environment()
    jars = ",".join(map(str, hadoop_jars()))
    path = jars.replace(",", os.pathsep)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} --driver-class-path {path} pyspark-shell"
    launch: Any = launch_gateway
    jvm = launch().jvm
    conf = jvm.org.apache.hadoop.conf.Configuration()
    conf.set("hdfs.minidfs.basedir", folder)
    builder = getattr(jvm.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(conf)
    cluster = builder.numDataNodes(1).build()
    cluster.waitActive()
    sys.stdout.write(f"{cluster.getURI().toString()}\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
