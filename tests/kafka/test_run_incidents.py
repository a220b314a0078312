"""Tests a run whose disk fills up, whose clock jumps, whose broker loses its leaders, and whose token for S3 expires."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.clock import HOUR_S, Clock
from tests.kafka.helpers import produce
from tests.kafka.nodes import three_nodes
from tests.kafka.processes import ending
from tests.kafka.s3 import S3
from tests.kafka.scenario import ALL, Scenario, differences
from tests.kafka.stored import WAIT_S, Stored, records

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

DISK_MB, SPARE_BYTES = 8, 20_000
LEADERS, ROWS = 2, 1500


def said(stored: Stored, sink: str) -> str:
    return " ".join(stored.log(sink).read_text(encoding="utf-8").split())


def assert_undisturbed(stored: Stored, sink: str, count: int) -> None:
    """Compare the output with that of a run that nothing happened to."""
    assert stored.run(stored.folder / "quiet", "quiet", "--until-caught-up")[0] == 0
    found, expected = stored.outputs([sink, "quiet"])
    assert len(found) == count
    assert found == expected


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of some megabytes at a new folder until the end of the block."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "kestrel", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path, spare: int) -> None:
    """Write a file until the disk has hardly any space left."""
    with file.open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(1 << 16)):
                pass
        except OSError:
            stream.truncate(max(0, stream.tell() - spare))


def test_a_full_disk_ends_the_run_and_the_same_command_resumes_when_there_is_space(
    stored: Stored, tmp_path: Path
) -> None:
    topic = f"{stored.name}_s"
    produce(stored.servers, topic, records(0, 100))
    with small_disk(tmp_path / "disk") as disk:
        with ending(stored.start(disk / "app", "full")) as process:
            stored.await_rows(process, "full", 100)
            fill(disk / "ballast", SPARE_BYTES)
            produce(stored.servers, topic, records(100, 400))
            assert process.wait(WAIT_S) == 1
        assert "no space is left on its disk" in said(stored, "full"), said(stored, "full")
        code, text = stored.run(disk / "app", "full")
        assert (code, text.count("no space is left on its disk") > 1) == (1, True), text
        (disk / "ballast").unlink()
        assert stored.run(disk / "app", "full", "--until-caught-up")[0] == 0
    assert_undisturbed(stored, "full", 500)


def test_a_clock_that_jumps_by_an_hour_changes_nothing(
    stored: Stored, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, clock, count = replace(stored, settings=s3.settings), Clock.build(tmp_path), 100
    topic = f"{stored.name}_s"
    produce(stored.servers, topic, records(0, count))
    with monkeypatch.context() as patch:
        for name, value in clock.environment.items():
            patch.setenv(name, value)
        process = stored.start(f"s3a://bucket/{stored.name}", "clock")
    with ending(process):
        stored.await_rows(process, "clock", count)
        for shift in (HOUR_S, -HOUR_S, 0):
            clock.move(shift)
            produce(stored.servers, topic, records(count, 100))
            count += 100
            stored.await_rows(process, "clock", count)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, said(stored, "clock")
    assert "lease" not in said(stored, "clock")
    assert_undisturbed(stored, "clock", count)


def test_a_run_outlives_the_leaders_of_its_partitions(spark: SparkSession, tmp_path: Path) -> None:
    with three_nodes(tmp_path / "nodes") as nodes:
        name, moment = f"led{time.time_ns()}", int(time.time()) * 1000
        scenario = Scenario(nodes.servers, name, tmp_path, ROWS, moment, replicas=3)
        scenario.produce()
        scenario.finish("quiet", spark)
        expected, topic = scenario.outputs("quiet"), f"{name}_a"
        with ending(scenario.start("run", "--batch-records", "100")) as process:
            for _ in range(LEADERS):
                scenario.await_write("run", process, *ALL, seconds=WAIT_S)
                leader = nodes.leader(topic)
                nodes.kill(leader)
                nodes.await_leader(topic, other_than=leader)
                scenario.await_write("run", process, *ALL, seconds=WAIT_S)
                nodes.start(leader)
                nodes.await_all()
                nodes.await_replicas(topic)
            scenario.await_outputs("run", process, expected, seconds=WAIT_S)
            process.terminate()
            assert process.wait(WAIT_S) == 0, scenario.said("run")
        assert differences(scenario.outputs("run"), expected) == []


def test_a_token_that_expires_is_named_and_a_new_one_resumes(stored: Stored, s3: S3) -> None:
    old, new = (replace(stored, settings=s3.token_settings(token)) for token in ("old", "new"))
    topic, checkpoint = f"{stored.name}_s", f"s3a://bucket/{stored.name}"
    produce(stored.servers, topic, records(0, 100))
    with ending(old.start(checkpoint, "token")) as process:
        old.await_rows(process, "token", 100)
        s3.expired.add("old")
        produce(stored.servers, topic, records(100, 100))
        assert process.wait(WAIT_S) == 1
    before = said(old, "token")
    assert "a token has expired" in before, before
    code, text = old.run(checkpoint, "token", "--until-caught-up")
    assert (code, text.count("token has expired") > before.count("token has expired")) == (1, True), text
    assert new.run(checkpoint, "token", "--until-caught-up")[0] == 0
    assert_undisturbed(replace(stored, settings={}), "token", 200)
