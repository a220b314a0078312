"""`make cluster`: four chained queries on a standalone cluster whose processes share a store and a broker only.

Starts Spark's master and three workers as processes of their own, an S3 API, a broker and the run; kills a worker with
its executor, and the driver; resumes, and counts every output.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kestrel_sql.kafka.broker.broker import HOST, Broker, free_port
from kestrel_sql.spark.runtime.environment import prepare_environment
from tests.kafka.demo import PARTITIONS, SCRIPT, SINKS, customers, judge, orders, say
from tests.kafka.helpers import await_rows, create, produce, spark_options, start
from tests.kafka.processes import ending, kill
from tests.kafka.s3 import s3_server

WORKERS, WAIT_S = 3, 600
CHECKPOINT = "s3a://kestrel/app"
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master with its workers, each in a process group of its own."""

    url: str
    workers: Sequence[subprocess.Popen[bytes]]


@contextmanager
def standalone_cluster(folder: Path, workers: int = WORKERS, group: int | None = None) -> Iterator[Cluster]:
    """Run a standalone cluster until the end of the block; each process has its folders below `folder`.

    The first worker, with its executors, runs in the group of users with the number `group`, if it is given.
    """
    prepare_environment()
    port = free_port()
    url = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        options = ("--host", HOST, "--port", str(port), "--webui-port", "0")
        stack.enter_context(_process(folder / "master", f"{_DEPLOY}.master.Master", *options))
        own = ("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g")
        started = [
            stack.enter_context(
                _process(at, f"{_DEPLOY}.worker.Worker", *own, "--work-dir", str(at / "work"), url, group=its_group)
            )
            for at, its_group in ((folder / f"worker{number}", None if number else group) for number in range(workers))
        ]
        yield Cluster(url, started)


@contextmanager
def _process(folder: Path, main: str, *arguments: str, group: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a class of Spark with a home and an environment of its own, without the packages of this one."""
    home = folder / "spark"
    home.mkdir(parents=True)
    for entry in Path(os.environ["SPARK_HOME"]).iterdir():
        if entry.name in ("bin", "jars", "sbin"):
            (home / entry.name).symlink_to(entry)
    environment = {
        "HOME": str(folder),
        "JAVA_HOME": os.environ["JAVA_HOME"],
        "PATH": "/usr/bin:/bin",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.decommission.enabled=true",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), main, *arguments],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
            start_new_session=True,
            group=group,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of the cluster with all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def options(master: str, settings: Mapping[str, str]) -> list[str]:
    """The options of a run on a cluster whose workers have a Python without packages; `settings` are Spark's."""
    conf = {
        "spark.pyspark.python": bare_python(),
        "spark.driver.host": HOST,
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        **settings,
    }
    given = spark_options(conf)
    return ["--master", master, "--property", "auto.offset.reset=earliest", "--batch-records", "1000", *given]


def bare_python() -> str:
    """The interpreter from which this environment was made."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def main() -> int:
    """Run the demonstration and return whether all checks passed."""
    # The blocks end what they started only if the process leaves them.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        say(f"starting a broker, an S3 API, a master and {WORKERS} workers, each with folders of its own")
        servers = stack.enter_context(Broker.start()).address
        s3 = stack.enter_context(s3_server())
        s3.make_bucket("kestrel")
        cluster = stack.enter_context(standalone_cluster(folder))
        given = options(cluster.url, s3.settings)
        return show(servers, folder, CHECKPOINT, given, "a worker with its executor", lambda: end(cluster.workers[0]))


def show(
    servers: str, folder: Path, checkpoint: str, given: Sequence[str], victim: str, strike: Callable[[], None]
) -> int:
    """Run four chained queries, kill the `victim` of a cluster and then the driver, resume, and judge the outputs."""
    script, log = folder / "app.sql", folder / "log"
    script.write_text(SCRIPT, encoding="utf-8")
    create(servers, PARTITIONS, "orders", "customers")
    produce(servers, "customers", customers())
    produce(servers, "orders", orders())
    started = time.monotonic()
    with ending(start(script, servers, checkpoint, *given, log=log)) as process:
        seen = await_rows(servers, SINKS, PARTITIONS, 0, WAIT_S)
        say(f"first output after {time.monotonic() - started:.1f} s")
        strike()
        say(f"killed {victim} when {seen} records were written")
        seen = await_rows(servers, SINKS, PARTITIONS, seen + 1000, WAIT_S)
        kill(process)
        say(f"killed the driver when {seen} records were written; starting it again from {checkpoint}")
    with ending(start(script, servers, checkpoint, "--until-caught-up", *given, log=log)) as process:
        done = process.wait(WAIT_S)
    for line in log.read_text(encoding="utf-8").splitlines():
        say(line)
    return judge(servers) if done == 0 else done


if __name__ == "__main__":
    sys.exit(main())
