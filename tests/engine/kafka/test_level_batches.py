"""Which queries write in the tasks of their last level."""

from __future__ import annotations

import pytest

from kestrel_sql.dataflow.graph import Graph
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.level_batches import has_slot_per_task, writes_alone
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline

SOURCES = """
CREATE STREAM A (K STRING KEY, V INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM B (K STRING KEY, W INT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE TABLE U (K STRING PRIMARY KEY, W STRING) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
"""
KEYED = "CREATE TABLE R AS SELECT K, COUNT(*) AS N FROM A GROUP BY K;"
OVER_KEYS = "CREATE TABLE R AS SELECT K, COUNT(*) AS N FROM A WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY K;"


def graph(statement: str) -> Graph:
    session = Session()
    for parsed in session.parse(SOURCES + statement):
        session.execute(parsed)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, settings=query.config)], FUNCTIONS).graph


def alone(statement: str, tasks: int = 2, sink: int = 2, *, pages_by_task: bool = True) -> bool:
    return writes_alone(graph(statement), tasks, {"R": sink}, pages_by_task=pages_by_task)


@pytest.mark.parametrize(
    ("statement", "by_task", "else_"),
    [
        (KEYED, True, False),
        ("CREATE STREAM R AS SELECT A.K AS K, V, W FROM A JOIN U ON A.K = U.K;", True, False),
        (OVER_KEYS, True, True),
        ("CREATE STREAM R AS SELECT A.K AS K, V, W FROM A JOIN B WITHIN 1 SECOND ON A.K = B.K;", True, True),
        ("CREATE TABLE R AS SELECT U.K AS K, V FROM U JOIN T ON U.W = T.K;", True, True),
        ("CREATE STREAM R AS SELECT V, W FROM A JOIN B WITHIN 1 SECOND ON A.K = B.K PARTITION BY V;", False, False),
        ("CREATE STREAM R AS SELECT K, V FROM A;", False, False),
        ("CREATE STREAM R AS SELECT K, V FROM A PARTITION BY V;", False, False),
    ],
    ids=["keys", "join of a table", "windows", "join of streams", "foreign key", "new key", "no state", "new key only"],
)
def test_a_level_writes_if_a_partition_of_the_sink_gets_what_one_task_makes(
    statement: str, by_task: bool, else_: bool
) -> None:
    assert (alone(statement), alone(statement, pages_by_task=False)) == (by_task, else_)


@pytest.mark.parametrize(("tasks", "sink", "expected"), [(2, 2, True), (2, 6, True), (6, 2, False), (2, 3, False)])
def test_a_sink_needs_partitions_of_which_each_is_of_one_task(tasks: int, sink: int, expected: bool) -> None:
    assert alone(KEYED, tasks, sink) is expected
    assert alone(OVER_KEYS, tasks, sink) is expected


@pytest.mark.parametrize(
    ("slots", "tasks", "expected"), [(2, 2, True), (8, 3, True), (7, 1, True), (7, 7, False), (32, 64, False)]
)
def test_a_task_has_one_slot_where_pages_are_separated_by_task(slots: int, tasks: int, expected: bool) -> None:
    assert has_slot_per_task(graph(OVER_KEYS), tasks, slots, pages_by_task=False) is expected
    assert has_slot_per_task(graph(KEYED), tasks, slots, pages_by_task=True) is expected
    assert not has_slot_per_task(graph(KEYED), tasks, slots, pages_by_task=False)
