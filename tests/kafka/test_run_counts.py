"""What a run says of its records adds up with what the broker holds (rules E12)."""

from __future__ import annotations

import gc
import json
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from kestrel_sql.cli.main import ExitCode, main
from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.direct import DirectBatches
from kestrel_sql.kafka.run.running_query import RunningQuery
from kestrel_sql.kafka.sink.sink import Written
from kestrel_sql.queries.bad_records import BadLimit
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, read

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (KAFKA_TOPIC='{0}_a') AS SELECT K, 10 / V AS X FROM S;
CREATE STREAM N WITH (KAFKA_TOPIC='{0}_n') AS SELECT K, X FROM A WHERE X > 2;
"""
PARTITIONS = 2


def value(at: int) -> str:
    return '{"V": "many"}' if at % 10 == 3 else json.dumps({"V": at % 5})


@pytest.mark.rules("E12.1", "E12.7", "E12.8")
def test_counts_are_those_of_the_broker(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"counts{time.time_ns()}", applications.config.servers
    text = SCRIPT.format(name)
    create(servers, PARTITIONS, f"{name}_s")
    rows, before = 0, {"a": 0, "n": 0}
    for more in (40, 0, 20):
        produce(servers, f"{name}_s", ((f"k{at % 4}", value(at), at + 1) for at in range(rows, rows + more)))
        bad = sum(at % 10 == 3 or at % 5 == 0 for at in range(rows, rows + more))
        rows += more
        done = applications.catch_up(text, tmp_path / "checkpoint", batch_records=15)
        assert done.well, done.said
        now = {sink: len(read(servers, f"{name}_{sink}", PARTITIONS)) for sink in before}
        wrote = {sink: now[sink] - before[sink] for sink in before}
        before = now
        assert wrote["a"] == more - sum(at % 10 == 3 for at in range(rows - more, rows))
        assert done.said[-3:] == [
            f"CSAS_A_0: {more} records read, {wrote['a']} written, {bad} bad",
            f"CSAS_N_1: {wrote['a']} records read, {wrote['n']} written, 0 bad",
            f"2 queries: {more + wrote['a']} records read, {wrote['a'] + wrote['n']} written, {bad} bad",
        ]
        first = [sentence for sentence in done.said if "only counted" in sentence]
        assert len(first) == (2 if more else 0)
        for sentence in first:
            assert f"the record at {name}_s, partition " in sentence


@pytest.mark.rules("E12.3.2")
def test_a_batch_with_too_many_bad_records_is_held_back(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"limit{time.time_ns()}", applications.config.servers
    text = SCRIPT.format(name)
    create(servers, PARTITIONS, f"{name}_s")
    produce(servers, f"{name}_s", ((f"k{at % 4}", value(at), at + 1) for at in range(1100)))
    broken = text.replace("V INT", "V ARRAY<INT>").replace("10 / V", "V[1]")
    for limit, wrong, folder in (("99.9%", broken, "share"), ("300", text, "number")):
        done = applications.catch_up(wrong, tmp_path / folder, max_bad=BadLimit.of(limit))
        assert not done.well
        assert "and --max-bad allows" in done.text
        assert "nothing of batch 0 is written" in done.text, done.said
        assert read(servers, f"{name}_a", PARTITIONS) == []
        assert done.said[-1] == "CSAS_A_0: 0 records read, 0 written, 0 bad"
    done = applications.catch_up(text, tmp_path / "number", max_bad=BadLimit.of("30%"))
    assert done.well, done.said
    assert "CSAS_A_0: 1100 records read, 990 written, 330 bad" in done.said


@pytest.mark.rules("E12.8")
def test_a_batch_that_is_repeated_once_it_is_written_is_counted(
    applications: Applications, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, servers, failed = f"again{time.time_ns()}", applications.config.servers, []

    write = DirectBatches.write

    def write_and_fail(batches: DirectBatches, *given: Any, **named: Any) -> tuple[int, Written]:
        written = write(batches, *given, **named)
        if batches.query not in failed:
            failed.append(batches.query)
            raise QueryError("the broker does not answer")
        return written

    monkeypatch.setattr(DirectBatches, "write", write_and_fail)
    create(servers, PARTITIONS, f"{name}_s")
    produce(servers, f"{name}_s", ((f"k{at % 4}", '{"V": 5}', at + 1) for at in range(40)))
    done = applications.catch_up(SCRIPT.format(name), tmp_path / "checkpoint", batch_records=15)
    assert done.well, done.said
    assert len(failed) == 2
    assert len(read(servers, f"{name}_a", PARTITIONS)) == 40
    assert done.said[-3] == "CSAS_A_0: 40 records read, 40 written, 0 bad"


@pytest.mark.rules("E12.7")
def test_progress_goes_on_after_a_query_has_idled(
    applications: Applications, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrel_sql.kafka.run.progress._SECONDS", 1.0)
    name, servers = f"idle{time.time_ns()}", applications.config.servers
    create(servers, PARTITIONS, f"{name}_s")
    earliest = {"auto.offset.reset": "earliest"}
    with applications.running(SCRIPT.format(name), tmp_path / "checkpoint", properties=earliest) as going:
        for rows in (10, 20):
            produce(servers, f"{name}_s", ((f"k{at}", '{"V": 5}', at + 1) for at in range(10)))
            going.await_(lambda rows=rows: [state.rows_in for state in going.states.values()] == [rows, rows])  # type: ignore[misc]
            going.await_(lambda: all(state.lag and not any(state.lag.values()) for state in going.states.values()))
            going.await_(lambda: all(state.rows_per_second == 0 for state in going.states.values()))
        assert next(state.rows_out for state in going.states.values()) == 20


def test_the_jvm_need_not_keep_the_plans_of_finished_batches(
    applications: Applications, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, servers, frames = f"plans{time.time_ns()}", applications.config.servers, []

    write = RunningQuery._written

    def written(query: RunningQuery, frame: DataFrame, number: int) -> Written:
        java = frame._jdf
        # Whoever calls a method of it makes it refer to itself.
        java.queryExecution()
        frames.append(weakref.ref(java))
        return write(query, frame, number)

    monkeypatch.setattr(RunningQuery, "_written", written)
    monkeypatch.setattr("kestrel_sql.kafka.run.run._COLLECT_S", 0.5)
    create(servers, PARTITIONS, f"{name}_s")
    produce(servers, f"{name}_s", [("k", '{"V": 5}', 1)])
    earliest = {"auto.offset.reset": "earliest"}
    gc.disable()
    try:
        with applications.running(SCRIPT.format(name), tmp_path / "checkpoint", properties=earliest) as going:
            going.await_(lambda: len(frames) >= 2)
            going.await_(lambda: not any(frame() for frame in frames), seconds=30)
    finally:
        gc.enable()


@pytest.mark.rules("E12.3", "E12.9")
def test_bad_records_fail_a_run_that_is_to_fail_on_them(
    commands: None, kafka: KafkaConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, servers, script = f"fail{time.time_ns()}", kafka.servers, tmp_path / "app.sql"
    script.write_text(SCRIPT.format(name), encoding="utf-8")
    create(servers, 1, f"{name}_s")
    produce(servers, f"{name}_s", [("k", '{"V": "many"}', 1)])
    own = ["--bootstrap-servers", servers, "--checkpoint", str(tmp_path / "checkpoint"), "--until-caught-up"]
    assert main(["run", str(script), *own, "--fail-on", "bad-records"]) == ExitCode.REFUSED
    out, said = capsys.readouterr()
    assert f"CSAS_A_0: the record at {name}_s, partition 0, offset 0, cannot be read (" in said
    assert said.splitlines()[-1] == "1 bad record: CSAS_A_0 1"
    assert out == ""
    assert "reading what the topics hold: CSAS_A_0, CSAS_N_1" in said
