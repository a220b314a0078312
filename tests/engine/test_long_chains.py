"""Flat chains of as many terms as a statement may have, on every face."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import kestrel_sql
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.sql.parse.nesting import MAX_TERMS
from tests.engine.server.servers import http, ksql, spark_server
from tests.engine.server.test_queries import eventually


def joined(operator: str, term: Callable[[int], str]) -> str:
    return operator.join(map(term, range(1, MAX_TERMS + 1)))


S = "CREATE STREAM s (id INT KEY, x INT, v STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
CHAINS = (
    f"CREATE STREAM o AS SELECT id, {joined(' + ', lambda _: 'x')} AS total, {joined(' || ', lambda _: 'v')} AS vs,"
    f" x IN ({joined(', ', str)}) AS listed FROM s WHERE {joined(' OR ', 'x = {}'.format)};"
)
T = "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"
PULL = f"SELECT n FROM t WHERE NOT ({joined(' AND ', 'id <> {}'.format)});"
COMPUTED = {"ID": 1, "TOTAL": 2 * MAX_TERMS, "VS": "a" * MAX_TERMS, "LISTED": True}


def check(engine: kestrel_sql.Engine) -> None:
    engine.sql(S + CHAINS + T)
    for number in (1, MAX_TERMS + 1):
        engine.insert("s", {"ID": number, "X": 2 * number, "V": "a"})
    (row,) = engine.rows("o")
    assert {name: row[name] for name in COMPUTED} == COMPUTED
    assert engine.sql(PULL).rows == [{"N": 1}]


@pytest.mark.rules("L2.13")
def test_the_process_computes_them() -> None:
    with kestrel_sql.connect() as engine:
        check(engine)


@pytest.mark.spark
@pytest.mark.rules("L2.13")
def test_spark_computes_them() -> None:
    with kestrel_sql.connect(open_test_session()) as engine:
        check(engine)


@pytest.mark.rules("L2.13")
def test_a_server_computes_them() -> None:
    with spark_server(config={"auto.offset.reset": "earliest"}) as running:
        made = ksql(running.url, f"{S} {CHAINS} {T} INSERT INTO s VALUES (1, 2, 'a');")
        assert made.status_code == 200, made.text[:500]

        def pulled() -> object:
            answer = http.post(f"{running.url}/query", json={"ksql": PULL}, timeout=60)
            return json.loads(answer.text.splitlines()[-1])

        eventually(lambda: pulled() == [1])
