"""Nothing of a user's text is parsed, planned or evaluated on the event loop, so that no request holds up the others."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from kestrel_sql.server.open import Running
from tests.bench.responsive import setup
from tests.engine.server.faces import VERSIONS
from tests.engine.server.loop import REQUESTS, ROOMS, calls, check_loop, watching
from tests.engine.server.servers import Http2Request, http, ksql, spark_server


@pytest.fixture(scope="module")
def watched() -> Iterator[Running]:
    with watching(), spark_server() as running:
        assert ksql(running.url, setup(), streamsProperties={"auto.offset.reset": "earliest"}).status_code == 200
        yield running


@pytest.mark.rules("R14.5")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", REQUESTS)
def test_the_event_loop_does_no_work_of_a_request(watched: Running, name: str, version: str) -> None:
    check_loop(watched.url, name, version)


@pytest.mark.rules("R14.5")
def test_the_event_loop_looks_at_no_property_of_inserts(watched: Running) -> None:
    properties = {f"consumer.{number:07}": 1 for number in range(1_000)}
    calls.clear()
    with Http2Request(watched.url, "/inserts-stream") as request:
        request.send(orjson.dumps({"target": "s", "properties": properties}) + b"\n")
        assert request.answer(request.stream)[0] == 400
    assert calls["server"]
    assert calls.keys() <= ROOMS
    assert calls.total() < 200


@pytest.mark.rules("R14.5")
@pytest.mark.parametrize("path", ["/metrics", "/ui/data"])
def test_what_is_told_of_many_queries_is_written_beside_the_event_loop(watched: Running, path: str) -> None:
    made = "".join(f"CREATE STREAM {path[1]}{number} AS SELECT * FROM s;" for number in range(100))
    assert ksql(watched.url, made).status_code == 200
    calls.clear()
    assert f"CSAS_{path[1].upper()}99" in http.get(f"{watched.url}{path}").text
    assert calls.total() < 200
