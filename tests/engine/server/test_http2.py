"""HTTP/2 over a socket: one stream of a connection leaves the others alone."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest
from hypercorn.config import Config

from kestrel_sql.server.http.bodies import Limits
from kestrel_sql.server.open import Running
from tests.engine.server.servers import Http2Client, ksql, sparkless_server
from tests.engine.server.test_fuzz import sockets
from tests.engine.server.test_queries import eventually

CREATE = (
    "CREATE STREAM IF NOT EXISTS s (id INT KEY, v STRING) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
)


@pytest.fixture(scope="module")
def url(idle: Running) -> str:
    assert ksql(idle.url, CREATE).status_code == 200
    return idle.url


def is_alive(client: Http2Client) -> bool:
    """Whether the connection still answers."""
    return client.answer(client.begin("GET", "/info", ends=True))[0] == 200


@pytest.mark.rules("R14.4")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("GET", path, 200) for path in ("/info", "/healthcheck", "/metrics", "/ui", "/chc/live", "/v1/metadata")),
        *(("GET", path, 404) for path in ("/nowhere", "/clusterStatus")),
        *(("POST", path, 404) for path in ("/nowhere",)),
        ("POST", "/info", 404),
    ],
)
def test_an_answer_before_the_body_has_come_leaves_the_connection(
    url: str, method: str, path: str, status: int
) -> None:
    with Http2Client(url) as client:
        push = client.begin("POST", "/query-stream")
        client.data(push, b'{"sql":"SELECT * FROM s EMIT CHANGES;"}', ends=True)
        assert b"queryId" in client.line_of(push)
        early = client.begin(method, path)
        assert client.answer(early)[0] == status
        client.data(early, b"{}", ends=True)
        assert is_alive(client)


@pytest.mark.rules("R14.4", "R14.1")
def test_an_answer_before_a_large_body_has_come_leaves_the_connection() -> None:
    with sparkless_server(limits=Limits(body_bytes=1_000)) as running, Http2Client(running.url) as client:
        for path, status in (("/nowhere", 404), ("/ksql", 413)):
            early = client.begin("POST", path)
            client.data(early, b"x" * 300_000)
            assert client.answer(early)[0] == status
            client.data(early, b"x" * 300_000, ends=True)
        assert is_alive(client)


@pytest.mark.rules("R10.4", "R14.4")
@pytest.mark.parametrize(
    ("first", "rows", "says"),
    [
        *((b'{"target":"s"}\n{"id":"x"}\n', rows, b"row 0: ") for rows in (40, 200, 20_000)),
        (b'{"target":"nowhere"}\n', 200, b"NOWHERE"),
        (b"[]\n", 200, b"object"),
    ],
)
def test_rows_after_an_answer_are_dropped(url: str, first: bytes, rows: int, says: bytes) -> None:
    with Http2Client(url) as client:
        inserts = client.begin("POST", "/inserts-stream")
        client.data(inserts, first)
        for _ in range(rows // 10):
            client.data(inserts, b'{"id":1,"v":"a"}\n' * 10)
        assert says in client.answer(inserts)[1]
        client.data(inserts, b'{"id":1}\n', ends=True)
        assert is_alive(client)


@pytest.mark.rules("R14.4")
def test_a_stream_that_is_not_read_stops_no_other(url: str) -> None:
    with Http2Client(url) as client:
        # The client of a push query sends more than its request, which nobody reads.
        push = client.begin("POST", "/inserts-stream")
        for _ in range(100):
            client.data(push, b" " * 100)
        assert is_alive(client)


@pytest.mark.rules("R14.4")
def test_a_request_that_makes_no_sense_ends_alone(url: str) -> None:
    with Http2Client(url) as client:
        client.answer(client.begin("GET", "/é", ends=True))
        assert is_alive(client)


@pytest.mark.rules("R14.4")
def test_a_connection_takes_any_number_of_requests(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Config, "keep_alive_max_requests", 5)
    with Http2Client(url) as client:
        push = client.begin("POST", "/query-stream")
        client.data(push, b'{"sql":"SELECT * FROM s EMIT CHANGES;"}', ends=True)
        query = json.loads(client.line_of(push))["queryId"]
        assert all(is_alive(client) for _ in range(10))
        closing = client.begin("POST", "/close-query")
        client.data(closing, json.dumps({"queryId": query}).encode(), ends=True)
        assert client.answer(closing)[0] == client.answer(push)[0] == 200


@pytest.mark.parametrize("read", [1000, 10], ids=["its end", "a reset"])
def test_a_client_that_goes_after_its_next_request_ends_its_push_query(idle: Running, url: str, read: int) -> None:
    body = b'{"sql":"SELECT * FROM s EMIT CHANGES;"}'
    with socket.create_connection(("127.0.0.1", idle.listener.port)) as client:
        client.sendall(
            b"POST /query-stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        assert client.recv(read)
        client.sendall(b"GET /info HTTP/1.1\r\nHost: localhost\r\n\r\n")
    eventually(lambda: idle.service.figures().push_clients == 0, 10)


@pytest.mark.parametrize("path", ["/ksql", "/inserts-stream"])
def test_a_client_that_goes_leaves_nothing(idle: Running, url: str, path: str) -> None:
    loop = idle.listener._loop
    assert loop is not None
    time.sleep(0.2)
    before = sockets(), len(asyncio.all_tasks(loop))
    with Http2Client(url) as client:
        if path == "/ksql":
            asked = client.begin("POST", path)
            client.data(asked, json.dumps({"ksql": "LIST FUNCTIONS;" * 50}).encode(), ends=True)
            # The answer is larger than the window of its stream.
            client._receive()
        else:
            asked = client.begin("POST", path)
            client.data(asked, b'{"target":"s"}\n{"id":"x"}\n')
            for _ in range(20):
                client.data(asked, b'{"id":1}\n')
    eventually(lambda: sockets() <= before[0] and len(asyncio.all_tasks(loop)) <= before[1], 10)


@pytest.mark.parametrize("settings", [b"\xa5\x80AM", b"AAAA", b"AAT_____"], ids=["no base64", "a piece", "a window"])
def test_settings_that_cannot_be_read_end_the_connection(
    idle: Running, settings: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: %s\r\n\r\n" % settings
    with socket.create_connection(("127.0.0.1", idle.listener.port), timeout=20) as client:
        client.sendall(b"GET /info HTTP/1.1\r\nHost: localhost\r\n" + upgrade)
        while client.recv(1000):
            pass
    assert not caplog.records


@pytest.mark.rules("R14.2")
def test_a_client_amid_its_body_when_the_server_ends_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    with sparkless_server() as running:
        client = socket.create_connection(("127.0.0.1", running.listener.port), timeout=60)
        client.sendall(b"POST /ksql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        assert ksql(running.url, "SHOW TYPES;").status_code == 200
    with client:
        assert not caplog.records
