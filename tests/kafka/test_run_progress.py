"""What is said of a running query, from Spark's reports and the broker's offsets."""

from __future__ import annotations

import json

from engine.cli_run import line
from engine.kafka.progress import QueryProgress
from engine.kafka.running import reason_of


def report(batch: int, rows: int, offsets: dict[str, dict[str, int]], state: int = 0) -> dict[str, object]:
    return {"batchId": batch, "numInputRows": rows, "sources": [{"endOffset": offsets}], "stateOperators": [{"numRowsTotal": state}]}


def test_batches_are_counted_once_and_the_lag_is_the_broker_s() -> None:
    progress = QueryProgress("Q")
    first = report(0, 10, {"a": {"0": 6, "1": 4}}, state=3)
    assert progress.note([first], now=lambda: 100.0)
    assert not progress.note([first], now=lambda: 100.5)
    assert progress.note([first, report(1, 5, {"a": {"0": 11, "1": 4}}, state=4)], now=lambda: 101.0)
    progress.wrote(7)
    progress.behind({("a", 0): 20, ("a", 1): 4, ("b", 0): 9})
    state = progress.state(now=lambda: 101.0)
    assert (state.rows_in, state.rows_out, state.batch, state.state_rows) == (15, 7, 1, 4)
    assert state.lag == {"a": 9}
    assert state.rows_per_second == 1.5
    assert progress.state(now=lambda: 200.0).rows_per_second == 0
    assert line(state) == "Q: 15 in, 7 out, 2/s, lag a 9, 4 state rows"
    assert json.loads(state.to_json(2.5)) == {
        "time": 2500, "query": "Q", "batch": 1, "rows_in": 15, "rows_out": 7,
        "rows_per_second": 1.5, "lag": {"a": 9}, "state_rows": 4, "error": "",
    }  # fmt: skip


def test_offsets_may_be_text() -> None:
    progress = QueryProgress("Q")
    progress.note([{"batchId": 0, "numInputRows": 1, "sources": [{"endOffset": '{"a": {"0": 3}}'}]}])
    progress.behind({("a", 0): 3})
    assert progress.state().lag == {"a": 0}


def test_the_reason_of_an_error_is_one_sentence_and_ours_if_there_is_one() -> None:
    java = "org.apache.spark.SparkException: Job aborted\n\tat a.b\nCaused by: java.lang.IllegalStateException: the inner word\n\tat c.d"
    assert reason_of(java) == "the inner word"
    python = "Traceback\n  File x\nengine.errors.QueryError: the topic t is gone\n\tat org.apache"
    assert reason_of(python) == "the topic t is gone"
