"""Records that vanish do so with a word (rules E12.1)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from kestrel_sql.dataflow.log_entries import late_entry, log_entry
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.kafka.run.progress import QueryProgress, QueryState, summary
from kestrel_sql.operators.late_rows import Late
from kestrel_sql.queries.bad_records import TRANSIENT, BadLimit, BadRecords
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.processing_log import shape
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import LogEntry


def entry(kind: int = 0, logger: str = "processing.Q_1.KsqlTopic.Source", offset: int | None = 0) -> LogEntry:
    topic = None if offset is None else "orders"
    return LogEntry(kind=kind, logger=logger, message="no", topic=topic, partition=2, offset=offset, cause=("V: x",))


@pytest.mark.rules("E12.1")
def test_the_first_of_each_kind_is_named_with_its_position_and_cause() -> None:
    said: list[str] = []
    bad = BadRecords(said.append)
    bad.note([entry(), entry(offset=1)])
    bad.note([entry(offset=2), entry(1, "processing.Q_1.Project", 3), entry(3, offset=None), entry(4)])
    assert said == [
        (
            "Q_1: the record at orders, partition 2, offset 0, cannot be read (more of this kind are only counted): no;"
            " V: x"
        ),
        (
            "Q_1: the record at orders, partition 2, offset 3, cannot be computed (more of this kind are only counted):"
            " no; V: x"
        ),
        "Q_1: a record cannot be written (more of this kind are only counted): no; V: x",
    ]


@pytest.mark.rules("E12.3.1")
def test_a_query_that_an_error_has_stopped_is_named_once_and_listed_as_such() -> None:
    engine = MemoryEngine(Session())
    for parsed in engine.session.parse("""
        CREATE STREAM ORDERS (ID INT KEY, N INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE STREAM COPY AS SELECT * FROM ORDERS;
    """):
        engine.execute(parsed)
    running = engine.queries.find("CSAS_COPY_0")
    assert running is not None
    engine.queries.take(running, Output(log=[entry(4)]), 0)
    said: list[str] = []
    bad = BadRecords(said.append)
    bad.note_errors(engine.queries.errors())
    bad.note_errors(engine.queries.errors())
    assert said == ["CSAS_COPY_0: no; V: x (orders, partition 2, offset 0); the query has stopped"]
    [parsed] = engine.session.parse("SHOW QUERIES;")
    assert "ERROR" in engine.execute(parsed).rows[0]


@pytest.mark.rules("E12.2")
def test_a_record_counts_once_for_each_query() -> None:
    bad = BadRecords(lambda _: None)
    assert bad.summary() == ""
    bad.note([entry(), entry(1, "processing.Q_1.Project"), entry(logger="processing.Q_2.KsqlTopic.Source"), entry(4)])
    assert (bad.total, bad.counts) == (2, {"Q_1": 1, "Q_2": 1})
    bad.note([entry(offset=5)])
    assert bad.summary() == "3 bad records: Q_1 2, Q_2 1"


@pytest.mark.rules("E6.2", "E12.2.1")
def test_late_records_are_counted_by_query_and_are_not_bad() -> None:
    said: list[str] = []
    bad = BadRecords(said.append)
    rows = Late(3, 1_000, (0, 10_000), 0, 100_000, None)
    made = late_entry("processing.Q_1.Aggregate", rows)
    late = log_entry({**made, "src_topic": "orders", "src_part": 2, "src_off": 7})
    bad.note([late, late])
    bad.note([entry(logger="processing.Q_2.KsqlTopic.Source")])
    assert (bad.total, bad.late) == (1, {"Q_1": 6})
    text = "Skipping record for expired window. timestamp=[1000] window=[0,10000] grace=[0] streamTime=[100000]"
    first = "Q_1: the record at orders, partition 2, offset 7, comes too late"
    assert said[0] == f"{first} (more of this kind are only counted): {text}"
    assert bad.summary() == f"1 bad record: Q_2 1; 6 late records: Q_1 6; {first}: {text}"
    document = shape(late)
    assert (document["level"], document["message"]["type"]) == ("WARN", 1)
    assert document["message"]["recordProcessingError"] == {"errorMessage": f"{text} records=[3]", "cause": []}
    assert document["source"] == {"topic": "orders", "partition": 2, "offset": 7}


@pytest.mark.rules("E12.2")
def test_queries_that_come_and_go_share_a_count_and_the_sentences() -> None:
    said: list[str] = []
    bad = BadRecords(said.append, is_persistent={"Q_1"}.__contains__)
    bad.note([entry()])
    for number in range(3):
        bad.note([entry(logger=f"processing.query_{number}.KsqlTopic.Source", offset=7)])
    assert bad.counts == {"Q_1": 1, TRANSIENT: 3}
    assert [sentence.partition(":")[0] for sentence in said] == ["Q_1", "query_0"]
    assert bad.summary() == "4 bad records: Q_1 1, push and pull queries 3"


def report(batch: int, rows: int, offset: int, *, idle: bool = False) -> dict[str, object]:
    durations = {"latestOffset": 1, "triggerExecution": 2}
    return {
        "batchId": batch,
        "numInputRows": rows,
        "sources": [{"endOffset": {"a": {"0": offset}}}],
        "durationMs": durations if idle else durations | {"addBatch": 5},
    }


@pytest.mark.rules("E12.7")
def test_a_batch_counts_though_the_idle_query_has_reported_its_number_before() -> None:
    progress = QueryProgress("Q")
    reports = [report(0, 3, 3), report(1, 0, 3, idle=True)]
    assert progress.add(reports, now=lambda: 1.0)
    assert not progress.add(reports, now=lambda: 1.5)
    reports.append(report(1, 4, 7))
    assert progress.add(reports, now=lambda: 2.0)
    progress.measure_lag({("a", 0): 8})
    state = progress.state(now=lambda: 2.0)
    assert (state.batch, state.rows_in, state.rows_per_second, state.lag) == (1, 7, 0.7, {"a": 1})
    assert progress.state(now=lambda: 60.0).rows_per_second == 0


@pytest.mark.rules("E12.7", "E12.8")
def test_records_that_spark_reads_again_for_lost_executors_count_once() -> None:
    def ranged(batch: int, rows: int, start: object, end: object) -> dict[str, object]:
        return {**report(batch, rows, 0), "sources": [{"startOffset": start, "endOffset": end}]}

    progress = QueryProgress("Q", start={("a", 0): 2, ("a", 1): 0})
    first, second = {"a": {"0": 102, "1": 0}}, {"a": {"0": 152, "1": 50}}
    assert progress.add([ranged(0, 199, None, first)])
    assert progress.rows_in == 100
    assert progress.add([ranged(1, 150, json.dumps(first), json.dumps(second))])
    assert progress.rows_in == 200
    # What holds no records, such as the ends of transactions, has offsets, too.
    assert progress.add([ranged(2, 30, second, {"a": {"0": 200, "1": 60}})])
    assert progress.rows_in == 230


@pytest.mark.rules("E12.8")
def test_a_summary_adds_up() -> None:
    def state(query: str, read: int, written: int, bad: int) -> QueryState:
        return QueryState(
            query=query,
            batch=0,
            rows_in=read,
            rows_out=written,
            rows_per_second=0,
            lag=None,
            state_rows=None,
            bad_records=bad,
        )

    assert summary([state("A", 1, 0, 1)]) == ["A: 1 record read, 0 written, 1 bad"]
    assert summary([state("A", 1, 0, 1), state("B", 7, 5, 2)])[1:] == [
        "B: 7 records read, 5 written, 2 bad",
        "2 queries: 8 records read, 5 written, 3 bad",
    ]
    assert summary([replace(state("A", 6, 3, 0), late_records=3)]) == ["A: 6 records read, 3 written, 0 bad, 3 late"]
    assert summary([]) == []


@pytest.mark.rules("E12.3.2")
@pytest.mark.parametrize(
    ("limit", "before", "more", "read", "flaw"),
    [
        ("2", 1, 1, 2, None),
        ("2", 1, 2, 5000, "3 bad records, and --max-bad allows 2"),
        ("0", 0, 1, 1, "1 bad record, and --max-bad allows 0"),
        ("50%", 1, 1, 3, None),
        ("0.1%", 0, 1, 1000, None),
        ("0.1%", 1, 1, 1000, "Q_1: 2 of 1000 records are bad, and --max-bad allows 0.1%"),
        ("1%", 0, 1, 10, None),
        ("1%", 1, 0, 10, "Q_1: 1 of 10 records are bad, and --max-bad allows 1%"),
    ],
)
def test_a_limit_is_judged_before_a_batch_is_counted(
    limit: str, before: int, more: int, read: int, flaw: str | None
) -> None:
    bad = BadRecords(print, limit=BadLimit.of(limit))
    bad.note([entry(offset=offset) for offset in range(before)])
    found = bad.flaw({"Q_1": read}, [entry(offset=before + offset) for offset in range(more)])
    assert found == flaw
    assert bad.total == before


@pytest.mark.rules("E12.3.2")
@pytest.mark.parametrize("text", ["", "%", "-1", "1.5", "x%", "1e3", "5 %", "\u0661"])
def test_a_limit_is_a_number_or_a_share(text: str) -> None:
    with pytest.raises(ValueError, match="expected N or P%, got"):
        BadLimit.of(text)


@pytest.mark.rules("E12.1.1")
def test_a_query_whose_first_records_all_are_bad_is_named_once() -> None:
    said: list[str] = []
    bad = BadRecords(said.append)
    for query, read, wrong in [("A", 999, 999), ("A", 1500, 1500), ("A", 1600, 1600), ("B", 1000, 999), ("B", 9, 9)]:
        bad.judge(query, read, wrong)
    bad.judge("C", 0, 0, is_last=True)
    bad.judge("D", 3, 3, is_last=True)
    assert [sentence.partition(":")[2].partition(" are bad")[0] for sentence in said] == [
        " A: ALL of the first 1500 records",
        " D: ALL of the first 3 records",
    ]
