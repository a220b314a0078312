"""Tests the end of a run: it finishes its batches, and waits with a message for a broker that does not answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.kafka.broker.broker import HOST, Broker, free_port
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import Problem
from kestrel_sql.kafka.run.run import ProductionRun, RunSettings, connect
from kestrel_sql.queries.bad_records import BadRecords
from tests.kafka.applications import Applications
from tests.kafka.helpers import await_rows, create, produce, read, start
from tests.kafka.proxy import Proxy
from tests.kafka.scenario import LEAN

pytestmark = pytest.mark.spark

APP = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM F WITH (KAFKA_TOPIC='{0}_f') AS SELECT * FROM S WHERE V >= 0;
"""
MANY = 60_000
"""More than tasks write while they stay."""
LEAVE_S = 150


def script(folder: Path, name: str) -> Path:
    path = folder / "app.sql"
    path.write_text(APP.format(name), encoding="utf-8")
    return path


def test_a_stop_ends_a_run_between_two_batches(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"stop_{time.time_ns()}", applications.config.servers
    create(servers, 1, f"{name}_s")
    produce(servers, f"{name}_s", ((f"k{n}", json.dumps({"V": n}), 1 + n) for n in range(MANY)))
    earliest = {"auto.offset.reset": "earliest"}
    with applications.running(APP.format(name), tmp_path, properties=earliest, batch_records=100) as run:
        run.await_(lambda: read(servers, f"{name}_f", 1), pause=0.02)
    assert run.well, run.text
    assert 0 < len(in_order(servers, f"{name}_f")) < MANY, "it was stopped too late"


def in_order(servers: str, topic: str) -> list[int]:
    """The values of a topic, after a check that they are the first ones, in order."""
    written = [json.loads(value or b"")["V"] for _, _, value, _ in read(servers, topic, 1)]
    assert written == list(range(len(written)))
    return written


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_between_two_batches(kafka: KafkaConfig, tmp_path: Path, number: signal.Signals) -> None:
    name, log = f"stop_{time.time_ns()}", tmp_path / "log"
    create(kafka.servers, 1, f"{name}_s")
    produce(kafka.servers, f"{name}_s", ((f"k{n}", json.dumps({"V": n}), 1 + n) for n in range(MANY)))
    options = (*LEAN, "--property", "auto.offset.reset=earliest", "--batch-records", "100", "--master", "local[1]")
    run = start(script(tmp_path, name), kafka.servers, tmp_path / "checkpoint", *options, log=log)
    try:
        assert await_rows(kafka.servers, [f"{name}_f"], 1, 0) > 0
        # A terminal tells all processes of the command.
        os.killpg(run.pid, number) if number == signal.SIGINT else run.send_signal(number)
        assert run.wait(LEAVE_S) == 0, log.read_text(encoding="utf-8")
    finally:
        _end(run)
    in_order(kafka.servers, f"{name}_f")
    assert "Traceback" not in log.read_text(encoding="utf-8")


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_is_away_at_the_start_is_waited_for(kafka: KafkaConfig) -> None:
    proxy, said = Proxy(int(kafka.servers.rpartition(":")[2])), list[str]()
    servers = f"{HOST}:{proxy.port}"
    with ExitStack() as stack:
        stack.callback(proxy.end)
        away = stack.enter_context(ExitStack())
        away.enter_context(proxy.refusing())

        def say(text: str) -> None:
            said.append(text)
            away.close()

        connect(KafkaConfig(servers=servers), say, patience=60, stop=Event())
    [only] = said
    assert only.startswith(f"the broker {servers} does not answer: ")
    assert only.endswith("; trying again")


@pytest.mark.nightly
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("leaves", [False, True])
def test_a_broker_that_is_away_is_waited_for(spark: SparkSession, tmp_path: Path, leaves: bool) -> None:
    port, patience = free_port(), 60 if leaves else 180
    servers = f"{HOST}:{port}"
    applications = Applications(spark, KafkaConfig(servers=servers))
    broker = None
    try:
        with applications.running(
            APP.format("away"), tmp_path / "c", properties={"auto.offset.reset": "earliest"}, patience=patience
        ) as run:
            run.await_(lambda: run.said)
            assert run.said[0].startswith(f"the broker {servers} does not answer: ")
            assert run.said[0].endswith("; trying again")
            broker = Broker.start(port, tmp_path / "data")
            produce(servers, "away_s", [("a", '{"V":1}', 1)])
            assert await_rows(servers, ["away_f"], 1, 0) == 1
            broker.kill()
            run.await_said(f"waiting for it up to {patience} s")
            broker = Broker.start(port, tmp_path / "data")
            run.await_said(f"the broker {servers} answers again")
            produce(servers, "away_s", [("b", '{"V":2}', 2)])
            assert await_rows(servers, ["away_f"], 1, 1) == 2
            if leaves:
                broker.kill()
                assert run.ended.wait(LEAVE_S)
        assert run.well is not leaves, run.text
        given_up = f"ENGINE_ERROR: the broker {servers} did not answer for {patience} s"
        assert (given_up in run.text) is leaves
        assert ("hint: nothing is lost: run the same command again" in run.text) is leaves
    finally:
        if broker is not None:
            broker.kill()


class _Away:
    """A broker that does not answer."""

    def ends(self, *_: object) -> None:
        raise QueryError("the broker h:1 returned no offsets")

    def problem(self) -> Problem:
        return Problem(message="it is away", hint="", is_final=False)


def quiet_run(said: list[str]) -> ProductionRun:
    settings = RunSettings(config=KafkaConfig(servers="h:1"), checkpoint=Path(), patience=1)
    nothing: Any = None
    return ProductionRun(
        settings=settings,
        session=nothing,
        statements=(),
        open_spark=nothing,
        say=said.append,
        show=lambda _: None,
        bad=BadRecords(said.append),
    )


def test_a_broker_that_stays_away_is_given_up() -> None:
    said: list[str] = []
    away: Any = _Away()
    run = quiet_run(said)
    run._look(away)
    run._watch(away)
    time.sleep(run.settings.patience)
    with pytest.raises(EngineError, match=r"^the broker h:1 did not answer for 1 s$") as caught:
        run._watch(away)
    assert said == ["the broker h:1 returned no offsets; waiting for it up to 1 s"]
    assert caught.value.hint == "nothing is lost: run the same command again to resume from the checkpoint"


def _end(run: subprocess.Popen[bytes]) -> None:
    if run.poll() is None:
        run.kill()
        run.wait()
