"""Tests that a join finds table rows that are older than all stream records, however small the batches are."""

from __future__ import annotations

import json
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, read, run, start
from tests.kafka.processes import await_in, kill
from tests.kafka.scenario import LEAN

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE TABLE T (K STRING PRIMARY KEY, N INT) WITH (KAFKA_TOPIC='{0}_t', VALUE_FORMAT='JSON');
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE STREAM J WITH (KAFKA_TOPIC='{0}_j') AS SELECT S.K AS K, V, N FROM S JOIN T ON S.K = T.K;
"""
PARTITIONS = 2
EARLIEST = {"auto.offset.reset": "earliest"}


def last_batch(commits: Path) -> int:
    return max((int(entry.name) for entry in commits.glob("[0-9]*") if entry.name.isdigit()), default=-1)


def _has_batch(commits: Path, least: int) -> bool:
    return last_batch(commits) >= least


def joined(servers: str, name: str) -> list[tuple[bytes | None, Any]]:
    """The keys and values of the join, in the order of the stream."""
    found = [(key, json.loads(value or b"{}")) for _, key, value, _ in read(servers, f"{name}_j", PARTITIONS)]
    return sorted(found, key=lambda pair: pair[1]["V"])


def fill(servers: str, name: str, rows: int) -> list[tuple[bytes, Any]]:
    """Write a table and a stream with a number of rows; return their join."""
    began, random_ = int(time.time()) * 1000, random.Random(rows)
    create(servers, PARTITIONS, f"{name}_t", f"{name}_s")
    keys = [random_.randrange(rows) for _ in range(rows)]
    # The stream's records are there first: nothing but their timestamps says that the table's are older.
    produce(
        servers, f"{name}_s", ((f"k{key}", json.dumps({"V": at}), began + rows + at) for at, key in enumerate(keys))
    )
    produce(servers, f"{name}_t", ((f"k{at}", json.dumps({"N": at}), began + at) for at in range(rows)))
    return [(f"k{key}".encode(), {"V": at, "N": key}) for at, key in enumerate(keys)]


def test_every_join_finds_its_row_after_a_stop(applications: Applications, tmp_path: Path) -> None:
    name, servers, rows, batch = f"join{time.time_ns()}", applications.config.servers, 240, 60
    wanted, text = fill(servers, name, rows), SCRIPT.format(name)
    commits = tmp_path / "queries" / "CSAS_J_0" / "commits"
    with applications.running(text, tmp_path, properties=EARLIEST, batch_records=batch) as first:
        first.await_(lambda: last_batch(commits) >= 1, pause=0.05)
    assert first.well, first.text
    assert last_batch(commits) < 2 * rows // batch - 1, "it was stopped too late"
    second = applications.catch_up(text, tmp_path, batch_records=batch)
    assert second.well, second.text
    assert sum(each.states["CSAS_J_0"].rows_in for each in (first, second)) == 2 * rows
    assert joined(servers, name) == wanted
    assert last_batch(commits) >= 2 * rows // batch - 1


@pytest.mark.nightly
@pytest.mark.parametrize(("rows", "batch", "kills"), [(3000, 250, 2), (100_000, 1000, 0), (100_000, 1000, 8)])
def test_every_join_finds_its_row_after_kills(
    kafka: KafkaConfig, tmp_path: Path, rows: int, batch: int, kills: int
) -> None:
    servers, name, random_ = kafka.servers, f"join{time.time_ns()}", random.Random(rows)
    wanted = fill(servers, name, rows)
    script = tmp_path / "app.sql"
    script.write_text(SCRIPT.format(name), encoding="utf-8")
    options = (*LEAN, "--batch-records", str(batch), "--property", "auto.offset.reset=earliest")
    commits = tmp_path / "checkpoint" / "queries" / "CSAS_J_0" / "commits"
    for number in range(kills):
        process = start(script, servers, tmp_path / "checkpoint", *options, log=tmp_path / "log")
        least = (number + 1) * 2 * rows // batch // (kills + 1)
        is_there = partial(_has_batch, commits, least)
        await_in(
            process, is_there, f"batch {least} does not end", (tmp_path / "log").read_text, seconds=600, pause=0.02
        )
        time.sleep(random_.uniform(0, 0.5))
        kill(process)
    done = run(script, servers, tmp_path / "checkpoint", "--until-caught-up", *options)
    assert done.returncode == 0, done.stderr
    assert joined(servers, name) == wanted
    assert last_batch(commits) >= 2 * rows // batch - 1
