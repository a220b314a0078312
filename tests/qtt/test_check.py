from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import (
    ActualRecord,
    Case,
    Crashed,
    ExpectedException,
    ExpectedLog,
    ExpectedSource,
    ExpectedTopic,
    Failed,
    FormatInfo,
    InputRecord,
    LogEntry,
    Outcome,
    OutputRecord,
    Post,
    Produced,
    Rejected,
    SourceState,
    Status,
    TopicState,
    Window,
)
from kestrel_qtt.judge.column_lists import canonical_columns
from kestrel_qtt.judge.judge import judge

CASE = Case(
    id="x.json::n", file=Path("x.json"), line=3, name="x - n", statements=("A", "B"), inputs=(InputRecord(topic="IN"),)
)
KAFKA = FormatInfo(format="KAFKA")
JSON = FormatInfo(format="JSON")


def expecting(*records: OutputRecord, **members: Any) -> Case:
    return replace(CASE, outputs=records, **members)


def verdict(case: Case, outcome: Outcome, tolerant_errors: bool = False) -> str:
    result = judge(case, outcome, tolerant_errors=tolerant_errors)
    assert (result.status is Status.PASSED) == (not result.reason)
    return result.reason


def wrote(*records: ActualRecord, topic: str = "OUT", **members: Any) -> Produced:
    return Produced({topic: records}, **members)


OUT = OutputRecord(topic="OUT", key=1, value={"A": 1}, line=7)
WROTE = ActualRecord(key=1, value={"A": 1}, timestamp=5)


def test_equal_records_pass() -> None:
    assert verdict(expecting(OUT, OUT), wrote(WROTE, WROTE)) == ""


@pytest.mark.parametrize(
    ("expected", "actual", "parts"),
    [
        (OUT, replace(WROTE, value={"A": "1"}), ["value.A", "1 (integer)", '"1" (string)']),
        (OUT, replace(WROTE, key="1"), ["key"]),
        (OUT, replace(WROTE, value=None), ["value", "null"]),
        (replace(OUT, timestamp=4), WROTE, ["timestamp", "4", "5"]),
        (replace(OUT, partition=1), WROTE, ["partition"]),
        (replace(OUT, offset=1), WROTE, ["offset"]),
        (OUT, replace(WROTE, headers=(("h", b"a"),)), ["headers", "YQ=="]),
        (replace(OUT, headers=(("h", None),)), WROTE, ["headers"]),
        (replace(OUT, headers=(("h", None),)), replace(WROTE, headers=(("h", b""),)), ["headers"]),
        (OUT, replace(WROTE, window=Window(0, 1, "time")), ["window", "null"]),
        (replace(OUT, window=Window(0, 1, "time")), WROTE, ["window"]),
        (
            replace(OUT, window=Window(0, 1, "time")),
            replace(WROTE, window=Window(0, 1, "session")),
            ["window", "session"],
        ),
        (replace(OUT, window=Window(0, 1, "time")), replace(WROTE, window=Window(0, 2, "time")), ["window"]),
    ],
)
def test_different_records_fail(expected: OutputRecord, actual: ActualRecord, parts: list[str]) -> None:
    reason = verdict(expecting(OUT, expected), wrote(WROTE, actual))
    assert "topic OUT, record 1 (x.json:7)" in reason
    assert "record 0" not in reason
    assert all(part in reason for part in parts), reason


@pytest.mark.rules("Q8.1")
def test_order_and_number_of_records() -> None:
    two = replace(OUT, key=2), replace(WROTE, key=2)
    assert verdict(expecting(OUT, two[0]), wrote(two[1], WROTE))
    assert "2 records expected, 1 written" in verdict(expecting(OUT, OUT), wrote(WROTE))
    more = verdict(expecting(OUT), wrote(WROTE, two[1]))
    assert "1 record expected, 2 written" in more
    assert "2 (integer)" in more
    assert "record 1 as written is not expected" in more
    assert "2 more records" in verdict(expecting(*[OUT] * 7), wrote(*[two[1]] * 7))


def test_missing_topic_fails() -> None:
    assert "1 record expected, 0 written" in verdict(expecting(OUT), Produced({}))


def test_timestamp_of_a_case_without_inputs() -> None:
    case = expecting(replace(OUT, timestamp=0), inputs=())
    assert verdict(case, wrote(WROTE)) == ""
    assert verdict(replace(case, outputs=(replace(OUT, timestamp=1),)), wrote(WROTE))
    assert verdict(replace(case, inputs=CASE.inputs), wrote(WROTE))


@pytest.mark.rules("Q8.1")
def test_silence_is_asserted_for_our_own_cases_only() -> None:
    assert "topic OUT: no records expected, 1 written" in verdict(expecting(), wrote(WROTE))
    assert verdict(expecting(), Produced({"OUT": ()})) == ""
    assert verdict(expecting(tolerant=True), wrote(WROTE)) == ""
    both = Produced({"OUT": (WROTE,), "OTHER": (WROTE,)})
    assert "OTHER" in verdict(expecting(OUT), both)
    assert verdict(expecting(OUT, tolerant=True), both) == ""
    internal = TopicState(name="OTHER", key_format=KAFKA, value_format=JSON, internal=True)
    assert verdict(expecting(OUT), replace(both, topics=(internal,))) == ""


def test_a_case_without_expectation_fails() -> None:
    assert "states no expectation" in verdict(CASE, wrote(WROTE))
    assert verdict(replace(CASE, tolerant=True), wrote(WROTE)) == ""


def test_inexact_comparison() -> None:
    case = expecting(replace(OUT, value=2))
    assert verdict(case, wrote(replace(WROTE, value=2.0))) == ""
    assert verdict(case, wrote(replace(WROTE, value=Decimal("2.0"))))
    assert (
        verdict(
            replace(case, properties={"use.exact.numeric.comparison": False}),
            wrote(replace(WROTE, value=Decimal("2.0"))),
        )
        == ""
    )


def test_positive_case_that_is_rejected_or_dies() -> None:
    assert "statement 1 was rejected: no" in verdict(expecting(), Rejected("no", statement_index=0, is_last=False))
    assert "the script was rejected" in verdict(expecting(), Rejected("no"))
    assert "the query failed: boom" in verdict(expecting(), Failed("boom"))


def test_crash_is_an_error() -> None:
    assert judge(expecting(), Crashed("x")).status is Status.ERROR


def negative(**members: Any) -> Case:
    return replace(CASE, outputs=(), inputs=(), expected_exception=ExpectedException(**members))


LAST = Rejected("column FOO is missing", "Statement: SELECT FOO", 1, True, "UNKNOWN_COLUMN")


@pytest.mark.rules("Q9.1", "Q9.2", "E9.1")
@pytest.mark.parametrize(
    ("members", "outcome", "passes", "passes_tolerantly"),
    [
        ({"message": "FOO is"}, LAST, True, True),
        ({"message": "SELECT FOO"}, LAST, True, True),
        ({"message": "foo is"}, LAST, False, True),
        ({"code": "UNKNOWN_COLUMN"}, LAST, True, True),
        ({"code": "TYPE", "message": "FOO"}, LAST, False, True),
        ({"message": "FOO"}, replace(LAST, statement_index=0, is_last=False), False, False),
        ({"message": "FOO"}, replace(LAST, statement_index=0, is_last=False, error_code="SYNTAX"), True, True),
        ({"message": "FOO"}, replace(LAST, statement_index=None, is_last=False), True, True),
        ({"message": "FOO"}, Failed("FOO"), False, False),
        ({"message": "FOO"}, Produced({}), False, False),
    ],
)
def test_negative(members: dict[str, Any], outcome: Outcome, passes: bool, passes_tolerantly: bool) -> None:
    assert (verdict(negative(**members), outcome) == "") is passes
    assert (verdict(negative(**members), outcome, tolerant_errors=True) == "") is passes_tolerantly


def test_foreign_types_say_which_statement_may_be_rejected() -> None:
    early = replace(LAST, statement_index=0, is_last=False)
    statement = replace(negative(type="io.confluent.ksql.util.KsqlStatementException", message="FOO"), tolerant=True)
    other = replace(negative(type="io.confluent.ksql.util.KsqlException", message="FOO"), tolerant=True)
    assert verdict(statement, early)
    assert verdict(other, early) == ""


def test_query_that_should_die() -> None:
    case = replace(negative(message="Exception caught", cause_message="overflow"), inputs=CASE.inputs)
    assert verdict(case, Failed("numeric overflow")) == ""
    assert verdict(case, Failed("something else"))
    assert verdict(case, Failed("something else"), tolerant_errors=True) == ""


SOURCE = SourceState(
    name="S", kind="stream", schema="`ID` INTEGER KEY, `V` STRING", key_format="KAFKA", value_format="JSON"
)
WINDOWED = replace(SOURCE, key_window=("TUMBLING", 1000))


@pytest.mark.rules("Q10.1")
@pytest.mark.parametrize(
    ("expected", "source", "passes"),
    [
        (ExpectedSource(name="S", kind="stream"), SOURCE, True),
        (ExpectedSource(name="s", kind="stream"), SOURCE, False),
        (ExpectedSource(name="S", kind="table"), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", schema="ID INT PRIMARY KEY, V VARCHAR"), SOURCE, True),
        (ExpectedSource(name="S", kind="stream", schema="V VARCHAR, ID INT KEY"), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", schema="ID INT, V VARCHAR"), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", schema="ID INT KEY, `v` VARCHAR"), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", schema="ID INT KEY, %"), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", checks_key=True), SOURCE, True),
        (ExpectedSource(name="S", kind="stream"), WINDOWED, True),
        (ExpectedSource(name="S", kind="stream", checks_key=True), WINDOWED, False),
        (ExpectedSource(name="S", kind="stream", checks_key=True, key_window=("TUMBLING", 1000)), WINDOWED, True),
        (ExpectedSource(name="S", kind="stream", checks_key=True, key_window=("TUMBLING", 1)), WINDOWED, False),
        (ExpectedSource(name="S", kind="stream", checks_key=True, key_format="JSON"), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", value_format="AVRO"), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", key_features=frozenset()), SOURCE, True),
        (ExpectedSource(name="S", kind="stream", value_features=frozenset({"WRAP_SINGLES"})), SOURCE, False),
        (ExpectedSource(name="S", kind="stream", is_source=True), SOURCE, False),
    ],
)
def test_post_sources(expected: ExpectedSource, source: SourceState, passes: bool) -> None:
    case = expecting(post=Post(sources=(expected,)))
    assert (verdict(case, Produced({}, (source,))) == "") is passes


TOPIC = TopicState(name="T", key_format=KAFKA, value_format=JSON, partitions=4, key_schema={"type": "int"})
EXPECTED_TOPIC = ExpectedTopic(name="T", key_format=KAFKA, value_format=JSON)


@pytest.mark.rules("Q10.3")
@pytest.mark.parametrize(
    ("expected", "passes"),
    [
        (EXPECTED_TOPIC, True),
        (replace(EXPECTED_TOPIC, name="t"), False),
        (replace(EXPECTED_TOPIC, partitions=4, key_schema={"type": "int"}), True),
        (replace(EXPECTED_TOPIC, partitions=1), False),
        (replace(EXPECTED_TOPIC, key_schema={"type": "long"}), False),
        (replace(EXPECTED_TOPIC, value_schema_id=1), False),
        (replace(EXPECTED_TOPIC, key_format=JSON), False),
        (replace(EXPECTED_TOPIC, key_format=replace(KAFKA, window_type="SESSION")), False),
        (replace(EXPECTED_TOPIC, value_format=replace(JSON, features=frozenset({"WRAP_SINGLES"}))), False),
        (replace(EXPECTED_TOPIC, value_format=replace(JSON, properties={"a": "b"})), False),
    ],
)
def test_post_topics(expected: ExpectedTopic, passes: bool) -> None:
    case = expecting(post=Post(topics=(expected,)))
    assert (verdict(case, Produced({}, (), (TOPIC,))) == "") is passes


def test_one_of_several_states_is_enough() -> None:
    states = (replace(TOPIC, partitions=1), TOPIC)
    assert (
        verdict(expecting(post=Post(topics=(replace(EXPECTED_TOPIC, partitions=4),))), Produced({}, (), states)) == ""
    )


@pytest.mark.rules("Q10.2")
def test_blacklist_is_searched() -> None:
    topic = replace(TOPIC, name="query-x-repartition")
    case = expecting(post=Post(blacklist=".*-repartition"))
    assert "query-x-repartition" in verdict(case, Produced({}, (), (TOPIC, topic)))
    assert verdict(case, Produced({}, (), (TOPIC,))) == ""
    assert verdict(expecting(post=Post(blacklist="x-r")), Produced({}, (), (topic,)))


ENTRY = LogEntry(type="deserialization", message="bad number in A", topic="IN", offset=2)


@pytest.mark.parametrize(
    ("expected", "passes"),
    [
        ((ExpectedLog(),), True),
        ((ExpectedLog(type="deserialization", message="number", topic="IN", offset=2),), True),
        ((), False),
        ((ExpectedLog(), ExpectedLog()), False),
        ((ExpectedLog(message="text"),), False),
        ((ExpectedLog(type="x"),), False),
        ((ExpectedLog(topic="x"),), False),
        ((ExpectedLog(offset=0),), False),
    ],
)
def test_log(expected: tuple[ExpectedLog, ...], passes: bool) -> None:
    assert (verdict(expecting(log=expected), Produced({}, log=(ENTRY,))) == "") is passes


def test_log_is_not_looked_at_where_it_is_not_given() -> None:
    assert verdict(expecting(), Produced({}, log=(ENTRY,))) == ""


@pytest.mark.rules("Q8.6")
def test_a_missing_record_stands_beside_what_the_log_says() -> None:
    missing = expecting(OutputRecord(topic="OUT"))
    note = "note: processing log, deserialization: IN, offset 2: bad number in A"
    said = verdict(missing, Produced({}, log=(ENTRY,) * 7)).splitlines()
    assert said[-6:] == [*[note] * 5, "note: the processing log has 2 more entries"]
    assert note not in verdict(replace(missing, log=()), Produced({}, log=(ENTRY,)))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a int key, b varchar", "`A` INTEGER KEY, `B` STRING"),
        (
            "a STRUCT<x INT, `y` ARRAY<MAP<STRING, DECIMAL(4,2)>>>",
            "`A` STRUCT<`X` INTEGER, `y` ARRAY<MAP<VARCHAR, DECIMAL( 4, 2 )>>>",
        ),
        (
            "h ARRAY<STRUCT<key STRING, value BYTES>> headers, k BYTES HEADER('a''b')",
            "H ARRAY<STRUCT<KEY STRING, VALUE BYTES>> HEADERS, K BYTES HEADER('a''b')",
        ),
        ('"a`b" INT', "`a``b` INT"),
    ],
)
def test_columns_that_are_the_same(left: str, right: str) -> None:
    assert canonical_columns(left) == canonical_columns(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a INT", "`a` INT"),
        ("a DECIMAL(4,2)", "a DECIMAL(4,3)"),
        ("a INT HEADER('x')", "a INT HEADER('y')"),
        ("a STRUCT<B INT>", "a STRUCT<C INT>"),
    ],
)
def test_columns_that_differ(left: str, right: str) -> None:
    assert canonical_columns(left) != canonical_columns(right)
