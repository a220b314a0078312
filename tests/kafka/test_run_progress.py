"""Tests the progress of a query from Spark's reports and the broker's offsets."""

from __future__ import annotations

import json
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from kestrel_sql.cli.progress import Board, MemoryWatch, line, open_lines
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.run.progress import QueryProgress, QueryState
from kestrel_sql.kafka.run.running_query import reason_of
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import Record

STATE = QueryState(query="Q", batch=1, rows_in=2, rows_out=1, rows_per_second=0.2, lag={"a": 3}, state_rows=None)


def report(batch: int, rows: int, offsets: dict[str, dict[str, int]]) -> dict[str, object]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "sources": [{"endOffset": offsets}],
        "durationMs": {"addBatch": 7, "triggerExecution": 9 + batch},
    }


def test_batches_are_counted_once_and_the_lag_is_the_broker_s() -> None:
    progress = QueryProgress("Q")
    first = report(0, 10, {"a": {"0": 6, "1": 4}})
    assert progress.add([first], now=lambda: 100.0)
    assert not progress.add([first], now=lambda: 100.5)
    assert progress.add([first, report(1, 5, {"a": {"0": 11, "1": 4}})], now=lambda: 101.0)
    progress.wrote(7)
    progress.state_rows = 4
    progress.measure_lag({("a", 0): 20, ("a", 1): 4, ("b", 0): 9})
    state = progress.state(now=lambda: 101.0)
    assert (state.rows_in, state.rows_out, state.batch, state.state_rows) == (15, 7, 1, 4)
    assert state.lag == {"a": 9}
    assert state.rows_per_second == 1.5
    assert progress.state(now=lambda: 200.0).rows_per_second == 0
    assert line(state) == "Q: 15 in, 7 out, 2/s, lag a 9, 4 state rows"
    assert json.loads(state.to_json(2.5)) == {
        "time": 2500, "query": "Q", "batch": 1, "rows_in": 15, "rows_out": 7,
        "rows_per_second": 1.5, "lag": {"a": 9}, "state_rows": 4, "batch_ms": 10, "bad_records": 0,
        "late_records": 0, "first_late": "", "error": "",
    }  # fmt: skip


def test_offsets_may_be_text() -> None:
    progress = QueryProgress("Q")
    sources = [{"endOffset": '{"a": {"0": 3}}'}]
    progress.add([{"batchId": 0, "durationMs": {"addBatch": 1}, "numInputRows": 1, "sources": sources}])
    progress.measure_lag({("a", 0): 3})
    assert progress.state().lag == {"a": 0}


def test_the_reason_of_an_error_is_one_sentence_and_ours_if_there_is_one() -> None:
    java = (
        "org.apache.spark.SparkException: Job aborted\n\tat a.b\nCaused by: java.lang.IllegalStateException: the inner"
        " word\n\tat c.d"
    )
    assert reason_of(java) == "the inner word"
    python = "Traceback\n  File x\nengine.errors.QueryError: the topic t is gone\n\tat org.apache"
    assert reason_of(python) == "the topic t is gone"
    assert reason_of("Traceback\n  File x\nkestrel_sql.errors.AccessError: no ACL\n\tat org.apache") == "no ACL"
    proxy = (
        'Return Message: Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n    ~^^\nValueError:'
        " no\n"
    )
    assert reason_of(proxy + "\n\tat py4j.Protocol") == "ValueError: no"
    called = proxy.replace("ValueError: no", "py4j.protocol.Py4JJavaError: An error occurred while calling o1.f")
    assert reason_of(f"{called}: a.B: aborted\n\tat a.b\nCaused by: a.C: the disk is gone\n") == "the disk is gone"


def test_a_file_gets_a_line_whenever_a_state_changes(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    for _ in range(2):
        with open_lines(path) as lines:
            board = Board(Console(file=StringIO()), lines)
            for state in (STATE, STATE, replace(STATE, rows_in=5)):
                board.show([state])
    written = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert [state["rows_in"] for state in written] == [2, 5, 2, 5]
    assert written[0]["state_rows"] is None


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be written: No such file"), open_lines(tmp_path / "no" / "file"):
        pass


def test_answers_that_go_to_a_file_are_not_drawn_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = StringIO()
    board = Board(Console(file=terminal, force_terminal=True, width=120), None)
    with board.live():
        board.show([STATE])
        sys.stdout.write("an answer\n")
    assert capsys.readouterr().out == "an answer\n"
    assert "Rows/s" in terminal.getvalue()
    assert "an answer" not in terminal.getvalue()


def test_states_are_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = StringIO()
    monkeypatch.setattr("kestrel_sql.cli.progress._QUIET_S", 0.0)
    Board(Console(file=plain, width=200), None).show([STATE, replace(STATE, error="gone")])
    assert plain.getvalue().splitlines() == [
        "Q: 2 in, 1 out, 0/s, lag a 3",
        "Q: 2 in, 1 out, 0/s, lag a 3, error: gone",
    ]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_end_is_a_table_on_a_terminal_only(is_terminal: bool) -> None:
    said = StringIO()
    board = Board(Console(file=said, force_terminal=is_terminal, width=120), None)
    board.conclude()
    assert said.getvalue() == ""
    board.show([STATE])
    board.conclude()
    assert ("┃" in said.getvalue()) is is_terminal
    assert is_terminal or said.getvalue() == "Q: 2 in, 1 out, 0/s, lag a 3\n"


def test_queries_in_memory_are_watched_while_they_work() -> None:
    engine = MemoryEngine(Session(config=Config.of({"auto.offset.reset": "earliest"})))
    text = (
        "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON'); CREATE STREAM o AS SELECT * FROM s; PAUSE"
        " CSAS_O_0;"
    )
    for parsed in engine.session.parse(text):
        engine.execute(parsed)
    written = StringIO()
    with MemoryWatch(engine, BadRecords(print)).shown(Board(Console(file=StringIO()), written)):
        for at in range(3):
            engine.produce(Record(topic="s", key=None, value=b"{}", timestamp=at))
        deadline = time.monotonic() + 10
        while not written.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert written.getvalue(), "shown before the end"
    last = json.loads(written.getvalue().splitlines()[-1])
    assert (last["query"], last["rows_in"], last["lag"], last["error"]) == ("CSAS_O_0", 0, {"s": 3}, "")
    engine.close()
