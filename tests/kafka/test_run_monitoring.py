"""Tests what a run shows outside: metrics, the dashboard and alerts over them, the health file, JSON lines, the grace."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, cast
from urllib.request import urlopen

import pytest
import yaml
from msgspec.structs import replace
from prometheus_client.exposition import generate_latest
from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.monitoring import JsonBoard, JsonConsole, Monitor, Phase
from kestrel_sql.cli.progress import Board
from kestrel_sql.dataflow.log_entries import DESERIALIZATION
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.broker.broker import HOST, free_port
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.progress import QueryProgress, QueryState
from kestrel_sql.kafka.run.run import ProductionRun, RunSettings
from kestrel_sql.kafka.run.running_query import RunningQuery
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.log_context import about, fields_now
from kestrel_sql.queries.metrics import registry_of
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import LogEntry

MONITORING = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
STATE = QueryState(
    query="CTAS_T_1",
    batch=7,
    rows_in=20,
    rows_out=10,
    rows_per_second=2.0,
    lag={"s": 3, "r": 4},
    state_rows=5,
    bad_records=1,
)
FAILED = QueryState(
    query="CSAS_F_2", batch=-1, rows_in=0, rows_out=0, rows_per_second=0, lag=None, state_rows=None, error="gone"
)


def exported(monitor: Monitor) -> str:
    return generate_latest(registry_of(monitor.collect)).decode()


def test_prometheus_gets_the_numbers_of_every_query() -> None:
    port, monitor = free_port(), Monitor()
    with monitor.open((HOST, port)):
        monitor.show([replace(STATE, late_records=2), FAILED])
        with urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    for line in (
        "kestrel_up 1.0",
        "kestrel_bad_records_total 1.0",
        'kestrel_query_late_records_total{query="CTAS_T_1"} 2.0',
        'kestrel_query_rows_in_total{query="CTAS_T_1"} 20.0',
        'kestrel_query_rows_out_total{query="CTAS_T_1"} 10.0',
        'kestrel_query_lag_records{query="CTAS_T_1"} 7.0',
        'kestrel_query_batch{query="CTAS_T_1"} 7.0',
        'kestrel_query_state_rows{query="CTAS_T_1"} 5.0',
        'kestrel_query_state{query="CTAS_T_1",state="RUNNING"} 1.0',
        'kestrel_query_state{query="CSAS_F_2",state="ERROR"} 1.0',
    ):
        assert line in text
    assert 'kestrel_query_lag_records{query="CSAS_F_2"}' not in text, "unknown"


def test_an_address_in_use_is_refused_in_a_sentence() -> None:
    port = free_port()
    refused = pytest.raises(EngineError, match=f"cannot listen on {HOST}:{port}")
    with Monitor().open((HOST, port)), refused, Monitor().open((HOST, port)):
        pass


def expressions() -> Iterator[str]:
    dashboard = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable["query"] for variable in dashboard["templating"]["list"])
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
            yield rule["expr"]


def test_dashboard_and_alerts_ask_for_metrics_that_are_exported() -> None:
    monitor = Monitor()
    monitor.show([STATE])
    names = set(re.findall(r"^(kestrel_\w+)", exported(monitor), re.MULTILINE))
    asked = {name for each in expressions() for name in re.findall(r"\bkestrel_\w+", each)}
    assert len(asked) > 7
    assert asked - names == set()


def test_the_health_file_says_the_state_and_its_time(tmp_path: Path) -> None:
    path = tmp_path / "health"
    monitor = Monitor(path)

    def read() -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))

    with monitor.open(None):
        assert read()["state"] == Phase.STARTING
        monitor.show([STATE, FAILED])
        found = read()
        assert (found["state"], found["queries"]) == ("running", {"CTAS_T_1": "RUNNING", "CSAS_F_2": "ERROR"})
        assert abs(found["time"] / 1000 - time.time()) < 60
        monitor.end(well=True)
    assert read()["state"] == "stopped"
    assert [each.name for each in tmp_path.iterdir()] == ["health"]


def test_a_health_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"the health file .*/no/health cannot be written: No such file"):
        Monitor(tmp_path / "no" / "health").end(well=False)


def test_messages_as_json_lines_name_query_batch_and_record() -> None:
    out = StringIO()
    console = JsonConsole(file=out)
    bad = BadRecords(lambda sentence: console.print(Text(sentence, "yellow")))
    entry = LogEntry(
        kind=DESERIALIZATION,
        logger="processing.CTAS_T_1.KsqlTopic.Source.deserializer",
        message="no JSON",
        topic="s",
        partition=3,
        offset=14,
    )
    with about(batch=9):
        bad.note([entry])
    board = JsonBoard(console, None)
    board._printed -= 60
    board.show([STATE])
    console.print(Text("starting", "dim"))
    first, second, third = (json.loads(line) for line in out.getvalue().splitlines())
    assert first.pop("message").startswith("CTAS_T_1: the record at s, partition 3, offset 14, cannot be read")
    assert first.pop("time")
    position = {"task": 3, "topic": "s", "partition": 3, "offset": 14}
    assert first == {"level": "warning", "batch": 9, "query": "CTAS_T_1", **position}
    assert (second["message"], second["query"], second["batch"], second["lag"]) == (
        "progress",
        "CTAS_T_1",
        7,
        STATE.lag,
    )
    assert (third["level"], third["message"]) == ("info", "starting")
    assert fields_now() == {}


@pytest.mark.parametrize(("kind", "lines"), [(Board, [2, 2, 3]), (JsonBoard, [2, 4, 6])])
def test_a_state_that_stays_is_one_line_for_people_and_many_for_programs(kind: type[Board], lines: list[int]) -> None:
    out = StringIO()
    console = JsonConsole(file=out) if kind is JsonBoard else Console(file=out)
    board, counts = kind(console, None), []
    for states in ([STATE, FAILED], [STATE, FAILED], [replace(STATE, rows_in=21), FAILED]):
        board._printed -= 60
        board.show(states)
        counts.append(out.getvalue().count("\n"))
    assert counts == lines


class Busy:
    """A streaming query that is in a batch until it is stopped."""

    def __init__(self) -> None:
        self.isActive = True
        self.status = {"isTriggerActive": True}

    def stop(self) -> None:
        self.isActive = False


@pytest.mark.parametrize(("grace", "ended"), [(None, [False]), (3600.0, [False]), (0.0, [True])])
def test_after_the_grace_a_run_does_not_wait_for_a_batch(
    tmp_path: Path, grace: float | None, ended: list[bool]
) -> None:
    said: list[str] = []
    config = KafkaConfig(servers="b:1", properties={})
    run = ProductionRun(
        settings=RunSettings(config=config, checkpoint=tmp_path, grace=grace),
        session=Session(),
        statements=[],
        open_spark=lambda: pytest.fail("no Spark is needed"),
        say=said.append,
        show=lambda _: None,
        bad=BadRecords(said.append),
    )
    stored: Any = type("Stored", (), {"id": "Q"})
    pipeline: Any = None
    around: Any = None
    query = RunningQuery(
        stored=stored,
        pipeline=pipeline,
        around=around,
        folder=tmp_path,
        progress=QueryProgress("Q"),
        execution=Busy(),
    )
    assert run._stopped([query]) == [False]
    time.sleep(0.01)
    assert run._stopped([query]) == ended
    assert said == (["Q did not finish its batch in 0 s; the next start repeats it"] if ended == [True] else [])
