"""No port is opened for a query.

Who connected to it by mistake would take the place of a worker, which then waits without end.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kestrel_sql.session.session import Session
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.pipeline.pipeline import QueryRun, build_pipeline
from kestrel_sql.spark.runtime import sockets
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.records import Record

SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE T AS SELECT K, SUM(V) AS N FROM S GROUP BY K;
"""
_LISTENS = "0A"


@pytest.mark.spark
def test_a_stateful_query_opens_no_port() -> None:
    session = Session()
    for parsed in session.parse(SCRIPT):
        session.execute(parsed)
    pipeline = build_pipeline([QueryRun(plan=query.plan, serde=session.serde()) for query in session.queries.values()])
    spark = open_test_session()
    runner = ResumableRunner(spark)
    try:
        with opened_ports(spark.sparkContext._gateway.proc.pid) as found:  # type: ignore[union-attr]
            runner.open(pipeline).advance(
                [Record(topic="s", key=b"k", value=b'{"V": 1}', timestamp=at, offset=at) for at in range(20)]
            )
        assert found == set()
    finally:
        runner.close()


def test_sockets_lie_where_nobody_else_looks() -> None:
    folder = Path(sockets.socket_settings("local[2]")["spark.python.unix.domain.socket.dir"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.getuid()


def test_the_path_of_a_socket_is_short_wherever_files_are_to_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * sockets._LONGEST)
    long.mkdir()
    monkeypatch.setattr(sockets.tempfile, "gettempdir", lambda: str(long))
    folder = Path(sockets._own_folder.__wrapped__())
    folder.rmdir()
    assert folder.parent == Path("/tmp")


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host"])
def test_executors_elsewhere_are_told_a_folder_that_every_machine_has(master: str) -> None:
    assert sockets.socket_settings(master)["spark.python.unix.domain.socket.dir"] == "/tmp"


@contextmanager
def opened_ports(pid: int) -> Iterator[set[int]]:
    """The ports that a process begins to listen on meanwhile."""
    before, found, ended = listening(pid), set[int](), threading.Event()

    def look() -> None:
        while not ended.is_set():
            found.update(listening(pid) - before)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def listening(pid: int) -> set[int]:
    own = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            own.add(os.readlink(entry))
    lines = (
        line.split()
        for kind in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
    )
    return {
        int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == _LISTENS and f"socket:[{line[9]}]" in own
    }
