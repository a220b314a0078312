"""How a query reads its topics: by what it keeps and whether its keys change."""

from __future__ import annotations

import pytest

from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.source.reading import Reading, reading_of
from kestrel_sql.session.session import Session

SOURCES = """
    CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2);
    CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=2);
    CREATE SOURCE M FROM KAFKA (TOPIC 'm') KEY FORMAT TEXT VALUE FORMAT JSON INCLUDE KEY AS id;
"""


@pytest.mark.parametrize(
    ("statement", "partitions", "reading"),
    [
        ("CREATE STREAM A AS SELECT K, V FROM S WHERE V > 1;", 2, Reading.DIRECT),
        ("CREATE STREAM A AS SELECT * FROM S PARTITION BY V;", 1, Reading.PLAIN),
        ("CREATE STREAM A AS SELECT * FROM S PARTITION BY V;", 2, Reading.MERGED),
        ("CREATE STREAM A AS SELECT * FROM M;", 1, Reading.PLAIN),
        ("CREATE STREAM A AS SELECT * FROM M;", 2, Reading.MERGED),
        ("CREATE TABLE A AS SELECT K, COUNT(*) FROM S GROUP BY K;", 2, Reading.PLAIN),
        ("CREATE TABLE A AS SELECT V, COUNT(*) FROM S GROUP BY V;", 1, Reading.PLAIN),
        ("CREATE TABLE A AS SELECT V, COUNT(*) FROM S GROUP BY V;", 2, Reading.MERGED),
        ("CREATE STREAM A AS SELECT S.K, T.V FROM S JOIN T ON S.K = T.K;", 1, Reading.MERGED),
    ],
)
def test_the_source_of_a_query(statement: str, partitions: int, reading: Reading) -> None:
    assert source_of(statement, partitions) is reading


@pytest.mark.parametrize(
    "statement",
    ["CREATE STREAM A AS SELECT K, V FROM S WHERE V > 1;", "CREATE TABLE A AS SELECT K, COUNT(*) FROM S GROUP BY K;"],
)
def test_partitions_are_merged_where_a_partition_of_the_sink_gets_records_of_several(statement: str) -> None:
    assert source_of(statement, 2, keeps_partitions=False) is Reading.MERGED


def source_of(statement: str, partitions: int, *, keeps_partitions: bool = True) -> Reading:
    session = Session()
    for parsed in session.parse(SOURCES + statement):
        session.execute(parsed)
    (query,) = session.queries.values()
    graph = build_graph([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())], FUNCTIONS)
    topics = sorted({source.topic for source in graph.sources})
    counts = dict.fromkeys(topics, partitions)
    plan, levels = query.plan.physical_plan, len(graph.levels)
    return reading_of(plan, topics, counts, levels, keeps_partitions=keeps_partitions)
