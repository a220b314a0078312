"""Tests checkpoints that are no local folder: on S3, and through Hadoop's file system in the session of the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.run import StoreUri
from tests.kafka.applications import Applications
from tests.kafka.hdfs import hdfs_cluster
from tests.kafka.helpers import create, produce, read, start
from tests.kafka.s3 import S3, s3_server
from tests.kafka.scenario import LEAN

pytestmark = pytest.mark.spark

APP = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{name}_s', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE T WITH (KAFKA_TOPIC='{name}_t_{sink}') AS
  SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM S GROUP BY K EMIT CHANGES;
"""
EARLIEST = {"auto.offset.reset": "earliest"}
KEYS, WAIT_S = 5, 240
NOW = int(time.time() * 1000)
"""Records of today: the broker compacts older ones of a table at once (docs/production.md)."""

Rows = list[tuple[bytes | None, bytes | None, int]]


def records(first: int, count: int) -> Iterator[tuple[str, str, int]]:
    return ((f"k{n % KEYS}", json.dumps({"V": n}), NOW + n) for n in range(first, first + count))


def rows(servers: str, topic: str) -> Rows:
    """Keys, values and timestamps; the order holds for each key."""
    return sorted(
        ((key, value, at) for _, key, value, at in read(servers, topic, 2)), key=lambda row: (row[0] or b"", row[2])
    )


def test_a_checkpoint_behind_hadoop_resumes(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"store_{time.time_ns()}", applications.config.servers
    create(servers, 2, f"{name}_s")
    text, uri = APP.format(name=name, sink="hadoop"), StoreUri((tmp_path / "c").as_uri())
    for first in (0, 20):
        produce(servers, f"{name}_s", records(first, 20))
        run = applications.catch_up(text, uri, properties=EARLIEST)
        assert run.well, run.text
    last = {row[0]: json.loads(row[1] or b"") for row in rows(servers, f"{name}_t_hadoop")}
    assert {value["N"] for value in last.values()} == {40 // KEYS}
    assert len(rows(servers, f"{name}_t_hadoop")) == 40
    assert {"kestrel.json", "offsets", "state"} <= {
        each.name for each in next((tmp_path / "c" / "queries").iterdir()).iterdir()
    }
    assert json.loads((tmp_path / "c" / "lease" / "2").read_text(encoding="utf-8"))["released"]


@pytest.fixture
def s3() -> Iterator[S3]:
    with s3_server() as server:
        server.make_bucket("bucket")
        yield server


@pytest.fixture(params=["s3a", "hdfs"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The URI of a store, and the settings of Spark that reach it."""
    if request.param == "hdfs":
        with hdfs_cluster(tmp_path) as uri:
            yield uri, {}
    else:
        server = request.getfixturevalue("s3")
        yield "s3a://bucket", server.settings


@dataclass(frozen=True, slots=True)
class Stored:
    """Runs of an application with its checkpoint on a store."""

    servers: str
    folder: Path
    settings: Mapping[str, str]
    name: str

    def start(self, checkpoint: Path | str, sink: str, *options: str) -> subprocess.Popen[bytes]:
        script = self.folder / f"{sink}.sql"
        script.write_text(APP.format(name=self.name, sink=sink), encoding="utf-8")
        conf = [word for item in self.settings.items() for word in ("--spark-conf", "=".join(item))]
        lean = ("--master", "local[2]", "--property", "auto.offset.reset=earliest", "--batch-records", "40")
        return start(script, self.servers, checkpoint, *LEAN, *lean, *conf, *options, log=self.log(sink))

    def log(self, sink: str) -> Path:
        return self.folder / f"{sink}.log"

    def run(self, checkpoint: Path | str, sink: str, *options: str) -> tuple[int, str]:
        code = self.start(checkpoint, sink, *options).wait(WAIT_S)
        return code, " ".join(self.log(sink).read_text(encoding="utf-8").split())

    def await_rows(self, process: subprocess.Popen[bytes], sink: str, count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while len(rows(self.servers, f"{self.name}_t_{sink}")) < count:
            assert process.poll() is None, self.log(sink).read_text(encoding="utf-8")
            assert time.monotonic() < deadline, self.log(sink).read_text(encoding="utf-8")
            time.sleep(0.2)

    def outputs(self, sinks: Sequence[str]) -> list[Rows]:
        return [rows(self.servers, f"{self.name}_t_{sink}") for sink in sinks]


@pytest.fixture
def stored(kafka: KafkaConfig, tmp_path: Path) -> Stored:
    name = f"store_{time.time_ns()}"
    create(kafka.servers, 2, f"{name}_s")
    return Stored(kafka.servers, tmp_path, {}, name)


@pytest.mark.nightly
def test_a_run_on_a_store_stops_is_killed_resumes_and_refuses_a_second_one(
    stored: Stored, tmp_path: Path, root: tuple[str, Mapping[str, str]]
) -> None:
    uri, stored = f"{root[0]}/{stored.name}", replace(stored, settings=root[1])
    produce(stored.servers, f"{stored.name}_s", records(0, 100))
    first = stored.start(uri, "store")
    stored.await_rows(first, "store", 100)
    second, said = stored.run(uri, "store")
    assert (second, f"the checkpoint {uri} is in use by another kestrel run (process {first.pid} on" in said) == (
        1,
        True,
    ), said
    first.send_signal(signal.SIGTERM)
    assert first.wait(WAIT_S) == 0, stored.log("store").read_text(encoding="utf-8")
    produce(stored.servers, f"{stored.name}_s", records(100, 400))
    killed = stored.start(uri, "store")
    stored.await_rows(killed, "store", 180)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    produce(stored.servers, f"{stored.name}_s", records(500, 100))
    assert stored.run(uri, "store", "--until-caught-up")[0] == 0
    assert stored.run(tmp_path / "local", "folder", "--until-caught-up")[0] == 0
    on_store, in_folder = stored.outputs(["store", "folder"])
    assert len(on_store) == 600
    assert on_store == in_folder


@pytest.mark.nightly
def test_a_store_that_cannot_be_used_is_named_with_what_to_do(stored: Stored, s3: S3) -> None:
    stored = replace(stored, settings=s3.settings)
    code, said = stored.run("s3a://nobucket/app", "none")
    assert (code, "the checkpoint s3a://nobucket/app cannot be used: there is no such bucket" in said) == (1, True), (
        said
    )
    code, said = stored.run("hdfs://127.0.0.1:9/app", "away")
    assert (code, "hdfs://127.0.0.1:9/app cannot be used: it does not answer" in said) == (1, True), said
    s3.ask_for_credentials()
    code, said = stored.run("s3a://bucket/app", "strict")
    assert (code, "it refuses these credentials" in said) == (1, True), said
