"""Over several partitions and pages each key gets the records that it gets over one."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.records.memory_topics import GroupRunner
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record

PARTITIONS = 3
PAGES = 4
BATCHES = 4
END = 100_000
"""Milliseconds; a jump of more than a day would lose windows before they are given out."""

SOURCES = {
    "orders": "CREATE TABLE ORDERS (ID STRING PRIMARY KEY, ITEM STRING, N INT)",
    "goods": "CREATE TABLE GOODS (ID STRING PRIMARY KEY, ITEM STRING, N INT)",
    "clicks": "CREATE STREAM CLICKS (ID STRING KEY, ITEM STRING, N INT)",
    "views": "CREATE STREAM VIEWS (ID STRING KEY, ITEM STRING, N INT)",
    "clicks2": "CREATE STREAM CLICKS2 (ID STRING KEY, ITEM STRING, N INT)",
}

QUERIES = {
    "aggregate": (
        "TABLE R AS SELECT ID, COUNT(*) AS C, COLLECT_LIST(N) AS L FROM CLICKS GROUP BY ID HAVING COUNT(*) > 1"
    ),
    "new key": (
        "TABLE R WITH (key_format='JSON') AS SELECT ITEM, N % 2 AS P, COUNT(*) AS C, SUM(N) AS S FROM CLICKS GROUP BY"
        " ITEM, N % 2"
    ),
    "table": "TABLE R AS SELECT ID, N FROM ORDERS WHERE N > 3",
    "table aggregate": "TABLE R AS SELECT ITEM, COUNT(*) AS C, SUM(N) AS S FROM ORDERS GROUP BY ITEM",
    "stream-table": (
        "STREAM R AS SELECT C.ITEM AS ITEM, C.N AS N, G.N AS M FROM CLICKS C LEFT JOIN GOODS G ON C.ITEM = G.ID"
    ),
    "tables": "TABLE R AS SELECT O.ID AS ID, O.N AS N, G.N AS M FROM ORDERS O LEFT JOIN GOODS G ON O.ID = G.ID",
    "foreign key": "TABLE R AS SELECT O.ID AS ID, G.N AS M FROM ORDERS O LEFT JOIN GOODS G ON O.ITEM = G.ID",
    "window": (
        "TABLE R AS SELECT ITEM, SUM(N) AS S FROM CLICKS WINDOW HOPPING (SIZE 20 SECONDS, ADVANCE BY 10 SECONDS) GROUP"
        " BY ITEM"
    ),
    "sessions": "TABLE R AS SELECT ID, COUNT(*) AS C FROM CLICKS WINDOW SESSION (3 SECONDS) GROUP BY ID",
    "streams": (
        "STREAM R AS SELECT C.ID AS ID, C.N AS N, V.N AS M FROM CLICKS C JOIN VIEWS V WITHIN 5 SECONDS ON C.ID = V.ID"
    ),
    "streams by a new key": (
        "STREAM R AS SELECT C.ITEM AS ITEM, C.N AS N, V.N AS M FROM CLICKS C JOIN VIEWS V "
        "WITHIN 2 SECONDS ON C.ITEM = V.ITEM"
    ),
    "streams, padded": (
        "STREAM R AS SELECT ROWKEY AS ID, C.N AS N, V.N AS M FROM CLICKS C FULL OUTER JOIN VIEWS V "
        "WITHIN 1 SECOND GRACE PERIOD 0 SECONDS ON C.ID = V.ID"
    ),
    "three streams": (
        "STREAM R AS SELECT C.ID AS ID, C.N AS N, V.N AS M, D.N AS O FROM CLICKS C "
        "JOIN VIEWS V WITHIN 3 SECONDS ON C.ID = V.ID JOIN CLICKS2 D WITHIN 3 SECONDS ON C.ID = D.ID"
    ),
    "stream and two tables": (
        "STREAM R AS SELECT C.ITEM AS ITEM, C.N AS N, G.N AS M, O.N AS P FROM CLICKS C JOIN GOODS G ON C.ITEM = G.ID "
        "LEFT JOIN ORDERS O ON C.ITEM = O.ID"
    ),
    "tables, outer": (
        "TABLE R AS SELECT ROWKEY AS ID, O.N AS N, G.N AS M FROM ORDERS O FULL OUTER JOIN GOODS G ON O.ID = G.ID"
    ),
    "tables, right": (
        "TABLE R AS SELECT G.ID AS ID, O.N AS N, G.N AS M FROM ORDERS O RIGHT JOIN GOODS G ON O.ID = G.ID WHERE G.N > 1"
    ),
    "foreign key, inner": (
        "TABLE R AS SELECT O.ID AS ID, O.N AS N, G.ITEM AS M FROM ORDERS O JOIN GOODS G ON O.ITEM = G.ID"
    ),
    "aggregate of a join": (
        "TABLE R AS SELECT G.ITEM AS ITEM, COUNT(*) AS C, SUM(C.N) AS S FROM CLICKS C JOIN GOODS G ON C.ITEM = G.ID "
        "GROUP BY G.ITEM"
    ),
    "having over a table": "TABLE R AS SELECT ITEM, COUNT(*) AS C FROM ORDERS GROUP BY ITEM HAVING COUNT(*) > 1",
    "final": (
        "TABLE R AS SELECT ITEM, SUM(N) AS S FROM CLICKS WINDOW TUMBLING (SIZE 2 SECONDS, RETENTION 1 DAY, GRACE PERIOD"
        " 0 SECONDS) GROUP BY ITEM EMIT FINAL"
    ),
    "sessions, final": (
        "TABLE R AS SELECT ITEM, COUNT(*) AS C FROM CLICKS "
        "WINDOW SESSION (1 SECOND, RETENTION 1 DAY, GRACE PERIOD 0 SECONDS) GROUP BY ITEM EMIT FINAL"
    ),
    "moved": "STREAM R AS SELECT * FROM CLICKS PARTITION BY ITEM",
    "exploded": "STREAM R AS SELECT ID, EXPLODE(ARRAY[N, N + 1]) AS E FROM CLICKS",
}


@pytest.fixture(scope="module")
def runner() -> Iterator[GroupRunner]:
    opened = GroupRunner(open_test_session())
    yield opened
    opened.close()


def planned(query: str) -> QueryRun:
    session = Session()
    sources = [f"{source} WITH (kafka_topic='{topic}', value_format='JSON');" for topic, source in SOURCES.items()]
    for statement in session.parse(f"{' '.join(sources)} CREATE {query};"):
        session.execute(statement)
    (made,) = session.queries.values()
    return QueryRun(plan=made.plan, settings=made.config, serde=session.serde())


def records(partitions: int) -> list[Record]:
    """Return the same records over a number of partitions.

    The last ones, much later, cover each key and item in all streams and close all windows.
    """
    random_ = random.Random(11)
    found = []
    for at in range(160):
        topic = random_.choice(list(SOURCES))
        key = random_.choice("abcdefgh").encode()
        value = {"ITEM": random_.choice("abcdefgh"), "N": random_.randrange(9)}
        gone = topic in ("orders", "goods") and random_.random() < 0.2
        data = None if gone else json.dumps(value).encode()
        found.append(
            Record(
                topic=topic, key=key, value=data, timestamp=at * 100, partition=partition_of(key, partitions), offset=at
            )
        )
    for topic in ("clicks", "views"):
        for name in "abcdefgh":
            key, value = name.encode(), json.dumps({"ITEM": name, "N": 1}).encode()
            found.append(
                Record(
                    topic=topic,
                    key=key,
                    value=value,
                    timestamp=END,
                    partition=partition_of(key, partitions),
                    offset=len(found),
                )
            )
    return found


ByKey = list[dict[bytes | None, list[tuple[bytes | None, int]]]]
"""For each query, the values and timestamps of its records by key."""


def by_key(runner: GroupRunner, cut: Cut, partitions: int, pages: int) -> ByKey:
    runs = [planned(text) for text in QUERIES.values()]
    pipeline = build_pipeline(runs)
    topics = [{source.topic for source in build_pipeline([run]).graph.sources} for run in runs]
    feeds = [[record for record in records(partitions) if record.topic in own] for own in topics]
    found = []
    for output in runner.run_group(pipeline, feeds, cut, tasks=[partitions] * len(runs), pages=pages):
        keys: dict[bytes | None, list[tuple[bytes | None, int]]] = defaultdict(list)
        for record in output.records:
            keys[record.key].append((record.value, record.timestamp))
        found.append(dict(keys))
    return found


@pytest.fixture(scope="module")
def whole(runner: GroupRunner) -> ByKey:
    """What the queries write over one partition and one page, at once."""
    found = by_key(runner, Cut(), 1, 1)
    assert all(len(keys) > 3 for keys in found)
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    "cut",
    [
        Cut(seed=3, most=BATCHES),
        pytest.param(Cut(), marks=pytest.mark.nightly),
        pytest.param(Cut(seed=4), marks=pytest.mark.nightly),
    ],
    ids=["few batches", "one batch", "many batches"],
)
def test_each_key_has_the_same_records_over_partitions_and_pages(runner: GroupRunner, whole: ByKey, cut: Cut) -> None:
    split = by_key(runner, cut, PARTITIONS, PAGES)
    for name, one, several in zip(QUERIES, whole, split, strict=True):
        assert several == one, name
    assert len({record.partition for record in records(PARTITIONS)}) == PARTITIONS
