"""Tests that an overflow in an aggregate stops its query and no other, and that the error names function and record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.records.memory_topics import GroupRunner
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.records import Record

pytestmark = pytest.mark.spark

SOURCES = """
CREATE STREAM S (K STRING KEY, D DECIMAL(4, 2), I INT, L BIGINT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE T (K STRING PRIMARY KEY, D DECIMAL(4, 2), I INT, L BIGINT) WITH (kafka_topic='s', value_format='JSON');
"""
FAILING = {
    "stream": ("SUM", "CREATE TABLE A AS SELECT K, COUNT(*) AS N, SUM(D) AS D FROM S GROUP BY K;"),
    "new key": ("SUM", "CREATE TABLE A AS SELECT I % 2 AS G, SUM(D) AS D FROM S GROUP BY I % 2;"),
    "table": ("SUM", "CREATE TABLE A AS SELECT I % 2 AS G, SUM(D) AS D FROM T GROUP BY I % 2;"),
    "window": ("SUM", "CREATE TABLE A AS SELECT K, SUM(D) AS D FROM S WINDOW TUMBLING (SIZE 1 DAY) GROUP BY K;"),
    "session": ("SUM", "CREATE TABLE A AS SELECT K, SUM(D) AS D FROM S WINDOW SESSION (1 DAY) GROUP BY K;"),
    "final": (
        "SUM",
        "CREATE TABLE A AS SELECT K, SUM(D) AS D FROM S WINDOW TUMBLING (SIZE 1 DAY) GROUP BY K EMIT FINAL;",
    ),
}
HEALTHY = {
    "integers wrap": "CREATE TABLE B AS SELECT K, SUM(I) AS I, SUM(L) AS L FROM S GROUP BY K;",
    "stateless": "CREATE STREAM C AS SELECT K, D FROM S;",
}
ALONE = ("session",)
"""What also fails outside of a group with every change, where rows have no envelope; the others do so every night."""

GUILTY = 3


def run_of(statement: str) -> QueryRun:
    session = Session()
    for parsed in session.parse(SOURCES + statement):
        session.execute(parsed)
    (query,) = session.queries.values()
    return QueryRun(plan=query.plan, settings=query.config, serde=session.serde())


def records() -> list[Record]:
    """Records whose sums of D are 40, 80 and 99.99, then too large at offset 103 of partition 2."""
    values = ["40.00", "40.00", "19.99", "0.01", "1.00"]
    return [
        Record(
            topic="s",
            key=b"k",
            value=json.dumps({"D": value, "I": 2**31 - 2, "L": 2**63 - 1}).encode(),
            timestamp=at,
            partition=2,
            offset=100 + at,
        )
        for at, value in enumerate(values)
    ]


@pytest.fixture(scope="module")
def runner() -> Iterator[GroupRunner]:
    opened = GroupRunner(open_test_session())
    yield opened
    opened.close()


def outputs(runner: GroupRunner, statements: Sequence[str], cut: str) -> list[Output]:
    runs = [run_of(statement) for statement in statements]
    feeds = [
        [_own_keys(record, at) if "FROM T" in text else record for at, record in enumerate(records())]
        for text in statements
    ]
    return runner.run_group(build_pipeline(runs), feeds, Cut.parse(cut))


def _own_keys(record: Record, at: int) -> Record:
    """Records with one key each: a table has one row for each key, so its sum grows with the keys."""
    return Record(
        topic=record.topic,
        key=b"%d" % at,
        value=record.value,
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )


def check_failed(name: str, output: Output) -> None:
    function, _ = FAILING[name]
    (entry,) = output.log
    assert (entry.kind, entry.topic, entry.partition, entry.offset) == (4, "s", 2, 100 + GUILTY)
    assert entry.logger.startswith("processing.CTAS_A_0.")
    assert f"{function} failed: Numeric field overflow: A field with precision 4 and scale 2" in entry.message
    assert len(output.records) == (0 if name == "final" else GUILTY + (2 if name == "session" else 0))


@pytest.mark.rules("E8.2", "E5.2")
@pytest.mark.parametrize("name", [pytest.param(x, marks=() if x in ALONE else pytest.mark.nightly) for x in FAILING])
def test_alone(runner: GroupRunner, name: str) -> None:
    (output,) = outputs(runner, [FAILING[name][1]], "one")
    check_failed(name, output)


@pytest.mark.rules("E8.2", "E5.2")
@pytest.mark.parametrize("cut", ["one", "each"])
def test_in_a_group_no_other_query_fails(runner: GroupRunner, cut: str) -> None:
    names = [*FAILING, *HEALTHY]
    found = dict(
        zip(names, outputs(runner, [*(text for _, text in FAILING.values()), *HEALTHY.values()], cut), strict=True)
    )
    for name in FAILING:
        check_failed(name, found[name])
    assert [found[name].log for name in HEALTHY] == [[], []]
    assert [len(found[name].records) for name in HEALTHY] == [5, 5]
    sums = [json.loads(record.value or b"") for record in found["integers wrap"].records]
    assert [row["I"] for row in sums[:3]] == [2147483646, -4, 2147483642]
    assert [row["L"] for row in sums[:3]] == [2**63 - 1, -2, 2**63 - 3]


def test_an_engine_stops_the_query_and_continues_with_others() -> None:
    engine = MemoryEngine()
    for parsed in engine.session.parse(SOURCES + FAILING["stream"][1] + HEALTHY["stateless"]):
        engine.execute(parsed)
    for at, record in enumerate(records()):
        engine.produce(record)
        if at >= GUILTY:
            engine.flush()
    progress = engine.queries.progress()
    error = progress["CTAS_A_0"][3]
    assert error.startswith("CTAS_A_0: Exception caught in process. SUM failed: Numeric field overflow")
    assert error.endswith(f"(s, partition 0, offset {GUILTY})")
    assert progress["CSAS_C_1"] == (5, 5, 0, "")
    assert len(engine.broker.records("A")) == GUILTY
    engine.close()
