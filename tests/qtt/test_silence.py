"""What is said of inputs that had no effect: the statements are planned, and no query runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, InputRecord, Produced
from kestrel_qtt.cli.approve import propose
from kestrel_qtt.drivers.records.outcome import event_times, silence
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.judge.judge import judge

STREAM = "CREATE STREAM s (k STRING KEY, a INT, b INT) WITH (kafka_topic='s', value_format='JSON');"


def case(statements: str, *inputs: InputRecord) -> Case:
    return Case(id="x::x", file=Path("x.yaml"), line=1, name="x", statements=(statements,), inputs=inputs, outputs=())


def at(*times: int) -> list[InputRecord]:
    return [InputRecord(topic="s", key="k", value={"A": 1}, timestamp=time) for time in times]


def said(statements: str, *inputs: InputRecord) -> tuple[str, ...]:
    run = prepare(case(statements, *inputs))
    assert run.outcome is None, run.outcome
    return silence(run)


@pytest.mark.rules("Q8.6")
def test_topics_that_nobody_has_or_reads() -> None:
    other = STREAM.replace("STREAM s", "STREAM t").replace("'s'", "'t'")
    copy = f"{STREAM} {other} CREATE STREAM o AS SELECT * FROM s;"
    unread, unknown = InputRecord(topic="t", value={"A": 1}), InputRecord(topic="tt", value={"A": 1})
    assert said(copy, unread, unread) == ("no query reads the topic t: 2 inputs had no effect",)
    (sentence,) = said(copy, unknown)
    assert sentence.startswith("no stream or table has the topic tt: 1 input went nowhere; ")
    assert said(copy, *at(0)) == ()


@pytest.mark.rules("Q8.6")
def test_members_that_no_column_takes() -> None:
    given = InputRecord(topic="s", value={"A": 1, "b": 2, "C": 3, "d": 4})
    assert said(f"{STREAM} CREATE STREAM o AS SELECT * FROM s;", given) == (
        "S has no column C, d: these members of inputs of s were dropped",
    )


@pytest.mark.rules("Q8.6")
@pytest.mark.parametrize(
    ("window", "emit", "times", "expected"),
    [
        ("TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)", "CHANGES", (1, 25, 9, 21), "1 window had expired"),
        ("HOPPING (SIZE 10 MILLISECONDS, ADVANCE BY 5 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)", "CHANGES", (25, 9), "2 windows had"),
        ("SESSION (10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)", "CHANGES", (1, 50, 20), "1 window had expired"),
        ("SESSION (10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)", "CHANGES", (1, 50, 45), ""),
        ("TUMBLING (SIZE 10 MILLISECONDS)", "CHANGES", (1, 25, 9), ""),
        ("TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)", "FINAL", (1, 9), "1 window is still open at stream time 9"),
    ],
)  # fmt: skip
def test_windows(window: str, emit: str, times: tuple[int, ...], expected: str) -> None:
    table = f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW {window} GROUP BY k EMIT {emit};"
    found = said(f"{STREAM} {table}", *at(*times))
    assert len(found) == bool(expected)
    assert expected in "".join(found)
    filtered = table.replace(" GROUP", " WHERE a > 5 GROUP")
    assert said(f"{STREAM} {filtered}", *at(*times)) == ()


@pytest.mark.rules("O9.4", "Q8.6")
def test_windows_that_final_loses_without_a_cache() -> None:
    window = "TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)"
    table = f"{STREAM} CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW {window} GROUP BY k EMIT FINAL;"
    still_open = "1 window is still open at stream time 75: EMIT FINAL emits a window when an input comes 0 ms or more"
    run = prepare(replace(case(table, *at(1, 2, 55, 75)), properties={"statestore.cache.max.bytes": 0}))
    found = silence(run)
    assert len(found) == 2
    assert found[0].startswith(still_open)
    assert found[1].startswith(
        "2 windows were lost: without a cache (cache.max.bytes.buffering is 0), EMIT FINAL emits"
    )
    (only,) = said(table, *at(1, 2, 55, 75))
    assert only.startswith(still_open)


@pytest.mark.rules("Q8.6")
@pytest.mark.parametrize(
    ("column", "values", "properties"),
    [
        ("b BIGINT", (1, 25, 9, 21, None), "timestamp='b'"),
        ("b TIMESTAMP", (1, 25, 9, 21, None), "timestamp='b'"),
        ("b STRING", ("00.001", "00.025", "00.009", "00.021", "?"), "timestamp='b', timestamp_format='ss.SSS'"),
    ],
)
def test_windows_over_the_times_of_a_column(column: str, values: tuple[object, ...], properties: str) -> None:
    stream = STREAM.replace("b INT", column).replace("'JSON'", f"'JSON', {properties}")
    window = "TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)"
    table = f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW {window} GROUP BY k;"
    given = [InputRecord(topic="s", key="k", value={"B": value}, timestamp=5) for value in values]
    run = prepare(case(f"{stream} {table}", *given))
    assert run.outcome is None
    (sentence,) = silence(run)
    assert sentence.startswith("1 window had expired when an input for it came (stream time 25, grace 0 ms)")
    assert event_times(run) == (1, 25, 9, 21, None)


@pytest.mark.rules("Q8.6")
def test_a_failure_says_so_and_approve_warns() -> None:
    outcome = Produced(records={}, silence=("nobody reads it",))
    failed = case(STREAM, *at(0))
    assert judge(failed, outcome).reason == ""
    reason = judge(replace(failed, outputs=None), outcome).reason
    assert reason.endswith("\nnote: nobody reads it")
    (proposal,) = propose([(failed, outcome)])
    assert proposal.warnings == ("no query wrote a record: the case will assert silence", "nobody reads it")
