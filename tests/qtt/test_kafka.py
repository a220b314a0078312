"""Where the records of a case belong on a broker; what needs no broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, Crashed, InputRecord, OutputRecord, Topic
from kestrel_qtt.drivers.kafka.case_topics import take_sent
from kestrel_qtt.drivers.kafka.partitions import OwnTopics, given_records, in_expected_order, misplaced
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_sql.topics.records import Record

STATEMENTS = (
    "CREATE STREAM S (K STRING KEY, V INT) WITH (kafka_topic='s', value_format='JSON');",
    "CREATE STREAM T AS SELECT * FROM S;",
    "CREATE TABLE W AS SELECT K, COUNT(*) AS N FROM T WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY K;",
)


def prepared(*inputs: InputRecord, partitions: int = 3, outputs: tuple[OutputRecord, ...] = ()) -> CaseRun:
    topics = (Topic(name="s", partitions=partitions),)
    case = Case(
        id="x", file=Path("x"), line=1, name="x", statements=STATEMENTS, inputs=inputs, outputs=outputs, topics=topics
    )
    run = prepare(case)
    assert run.outcome is None
    return run


def given(key: str | None, partition: int | None = None) -> InputRecord:
    return InputRecord(topic="s", key=key, value={"V": 1}, partition=partition)


def test_a_sink_has_the_partitions_of_its_source() -> None:
    topics = OwnTopics.of(prepared(given("a")), "p")
    assert topics.counts == {"s": 3, "T": 3, "W": 3}
    assert set(topics.names.values()) == {"p-0", "p-1", "p-2"}
    assert OwnTopics.of(prepared(given("a", 4)), "p").counts["s"] == 5


def test_a_record_goes_where_the_case_says_or_its_key_belongs() -> None:
    run = prepared(given("a"), given("b"), given("f"), given(None))
    assert [record.partition for record in given_records(run)] == [1, 2, 0, 0]
    run = prepared(given("a", 2), given("b", 0))
    assert [record.partition for record in given_records(run)] == [2, 0]


def test_a_refused_input_is_told() -> None:
    run = prepared(given("a"), given("b"))
    records = list(given_records(run))
    take_sent(run, records, [replace(records[0], topic="p-0", offset=7), replace(records[1], topic="p-0", offset=9)])
    assert [(record.topic, record.offset) for record in run.inputs] == [("s", 7), ("s", 9)]
    take_sent(run, records, [records[0], "too large"])
    assert run.outcome == Crashed("the broker refused an input: too large")


@pytest.mark.parametrize(
    ("record", "is_misplaced"),
    [
        (Record(topic="T", key=b"a", value=None, timestamp=0, partition=1), False),
        (Record(topic="T", key=b"a", value=None, timestamp=0, partition=0), True),
        (Record(topic="T", key=None, value=None, timestamp=0, partition=2), False),
        (Record(topic="W", key=b"a" + b"\0" * 8, value=None, timestamp=0, partition=1), False),
        (Record(topic="W", key=b"a" + b"\0" * 8, value=None, timestamp=0, partition=2), True),
        (Record(topic="s", key=b"a", value=None, timestamp=0, partition=0), False),
    ],
)
def test_a_record_in_a_foreign_partition_is_found(record: Record, is_misplaced: bool) -> None:
    found = misplaced(prepared(given("a")), [record])
    assert found == (record if is_misplaced else None)


def test_records_are_put_into_the_order_that_the_case_expects() -> None:
    wanted = tuple(OutputRecord(topic="T", key=key, value={"V": n}) for n, key in enumerate(["f", "a", "f"]))
    run = prepared(given("a"), outputs=wanted)
    places = [(b"a", 1, 0), (b"f", 0, 0), (b"f", 0, 1), (b"b", 2, 0)]
    records = [Record(topic="T", key=k, value=b"{}", timestamp=5, partition=p, offset=o) for k, p, o in places]
    ordered = in_expected_order(run, "T", records, 3)
    assert [(record.key, record.offset) for record in ordered] == [(b"f", 0), (b"a", 0), (b"f", 1), (b"b", 0)]
