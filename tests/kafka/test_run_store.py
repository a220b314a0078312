"""Tests checkpoints that are no local folder: on S3, and through Hadoop's file system in the session of the tests."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.run.rescaling import rescale_checkpoint
from kestrel_sql.kafka.run.run import StoreUri
from kestrel_sql.spark.state.checkpoint_path import open_store
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, states
from tests.kafka.s3 import S3
from tests.kafka.stored import APP, EARLIEST, KEYS, WAIT_S, Stored, records, rows
from tests.kafka.stores import KINDS, Way, store_of

pytestmark = pytest.mark.spark


def test_a_checkpoint_behind_hadoop_resumes_and_is_rescaled(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"store_{time.time_ns()}", applications.config.servers
    create(servers, 2, f"{name}_s")
    text, uri = APP.format(name=name, sink="hadoop"), StoreUri((tmp_path / "c").as_uri())
    for first in (0, 20):
        if first:
            store = open_store(applications.spark, uri.text)
            [rescaled] = rescale_checkpoint(store, FUNCTIONS, partitions=3, pages=7, wanted=None)
            assert rescaled.rows == KEYS
        produce(servers, f"{name}_s", records(first, 20))
        run = applications.catch_up(text, uri, properties=EARLIEST)
        assert run.well, run.text
    last = {row[0]: json.loads(row[1] or b"") for row in rows(servers, f"{name}_t_hadoop")}
    assert {value["N"] for value in last.values()} == {40 // KEYS}
    assert len(rows(servers, f"{name}_t_hadoop")) == 40
    assert {"kestrel.json", "offsets", "state"} <= {
        each.name for each in next((tmp_path / "c" / "rescaled" / "1").iterdir()).iterdir()
    }
    assert not [*(tmp_path / "c" / "queries").iterdir()]
    assert json.loads((tmp_path / "c" / "lease" / "3").read_text(encoding="utf-8"))["released"]


@pytest.fixture(params=KINDS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    with store_of(request.param, tmp_path) as way:
        yield way


@pytest.mark.nightly
def test_a_run_on_a_store_stops_is_killed_resumes_and_refuses_a_second_one(
    stored: Stored, tmp_path: Path, root: Way
) -> None:
    uri, stored = f"{root.uri}/{stored.name}", replace(stored, settings=root.settings)
    produce(stored.servers, f"{stored.name}_s", records(0, 100))
    first = stored.start(uri, "store")
    stored.await_rows(first, "store", 100)
    assert [each["keys"] for each in states(uri, stored.settings)] == [KEYS]
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
