"""Every face of a server answers alike; what one request cannot show has a test of its own."""

from __future__ import annotations

import ast
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrel_sql.queries.topic_rules import TopicRule
from tests.engine.server.faces import FACES, VERSIONS, Place, check
from tests.engine.server.servers import http, ksql, spark_server

ROOT = Path(__file__).resolve().parents[3]

PAIRS = ({"memory", "broker"}, {"1.1", "2"})


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with spark_server(topics=TopicRule.BROKER) as running:
        made = "CREATE STREAM s (id INT KEY, item STRING, price DOUBLE) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1);"
        assert ksql(running.url, f"{made} CREATE STREAM copy AS SELECT * FROM s;").status_code == 200
        yield Place(running.url, "s", "face_")


@pytest.mark.rules("R3.1", "R4.1")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("point", FACES["asked"])
def test_a_server_in_memory_answers(place: Place, point: str, version: str) -> None:
    check(place, point, version)


@pytest.mark.parametrize("point", FACES["shown"])
def test_what_a_request_cannot_show_has_tests(point: str) -> None:
    faces = FACES["shown"][point]
    assert faces.keys() in PAIRS
    for shown in faces.values():
        file, separator, name = shown.partition("::")
        if not separator:
            assert shown.endswith("."), shown
            continue
        parsed = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {each.name for each in parsed.body if isinstance(each, ast.FunctionDef)}, shown


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="threads and descriptors are counted in /proc")
@pytest.mark.parametrize("count", [20, pytest.param(2000, marks=pytest.mark.nightly)])
def test_queries_that_end_leave_nothing_in_memory(place: Place, count: int) -> None:
    def run(*numbers: int) -> None:
        for number in numbers:
            body = {"sql": "SELECT id FROM s EMIT CHANGES LIMIT 1;", "properties": {"auto.offset.reset": "earliest"}}
            assert len(http.post(f"{place.url}/query-stream", json=body).text.splitlines()) == 2
            made = (
                f"CREATE TABLE made WITH (KAFKA_TOPIC='made{number}') AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"
            )
            assert ksql(place.url, f"{made} DROP TABLE made DELETE TOPIC;").status_code == 200

    def opened() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    ksql(place.url, "INSERT INTO s (id) VALUES (1);")
    run(0, 1)
    before = opened()
    run(*range(2, count + 2))
    deadline = time.monotonic() + 20
    while any(now > then + 1 for now, then in zip(opened(), before, strict=True)):
        assert time.monotonic() < deadline, (before, opened())
        time.sleep(0.1)
