"""Push and pull queries, inserts and websockets over a socket, with Spark behind."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from socket import create_connection
from typing import Any
from urllib.parse import quote

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from kestrel_sql.server.open import Running
from tests.engine.server.servers import Http2Client, Http2Request, http, ksql
from tests.engine.server.test_fuzz import sockets

pytestmark = pytest.mark.spark

V = "application/vnd.ksql.v1+json"
EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def url(server: Running) -> str:
    text = """
        CREATE STREAM orders (id INT KEY, item STRING, price DOUBLE)
          WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE TABLE totals AS SELECT item, COUNT(*) AS n, SUM(price) AS total FROM orders GROUP BY item;
        INSERT INTO orders (id, item, price) VALUES (1, 'tea', 2.5);
        INSERT INTO orders (id, item, price) VALUES (2, 'milk', 1);
        INSERT INTO orders (id, item, price) VALUES (3, 'tea', 4);
    """
    answer = ksql(server.url, text, streamsProperties=EARLIEST)
    assert answer.status_code == 200, answer.text
    eventually(lambda: server.service.figures().queries[0].rows_in == 3)
    return server.url


def eventually(holds: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def curl(*arguments: str, data: str = "") -> str:
    command = ["curl", "-sN", "--max-time", "90", *arguments, "--data-binary", "@-"]
    return subprocess.run(command, input=data, capture_output=True, text=True, check=True).stdout


def sql(text: str, **more: Any) -> str:
    return json.dumps({"sql": text, "properties": EARLIEST, **more})


@pytest.mark.rules("R1.1", "R9.9", "R9.2")
@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_a_pull_query_by_key_in_all_formats(url: str, version: str) -> None:
    asked = sql("SELECT * FROM totals WHERE item = 'tea';")

    def answer(accept: str) -> str:
        text = curl(version, "-H", f"Accept: {accept}", f"{url}/query-stream", data=asked)
        return text.replace(text.split('"queryId":"')[1].split('"')[0], "ID")

    names = '{"queryId":"ID","columnNames":["ITEM","N","TOTAL"],"columnTypes":["STRING","BIGINT","DOUBLE"]}'
    assert answer("*/*") == f'{names}\n["tea",2,6.5]\n'
    assert answer("application/json") == f'[{names},["tea",2,6.5]]'
    header = '[{"header":{"queryId":"ID","schema":"`ITEM` STRING KEY, `N` BIGINT, `TOTAL` DOUBLE"}}'
    assert answer(V) == header + ',\n{"row":{"columns":["tea",2,6.5]}}]'
    proto = json.loads(answer("application/vnd.ksql.v1+protobuf"))
    assert "string ITEM = 1;" in proto[0]["header"]["protoSchema"]
    assert proto[1]["row"]["protobufBytes"] == "CgN0ZWEQAhkAAAAAAAAaQA=="


@pytest.mark.rules("R9.9")
def test_a_pull_query_without_rows(url: str) -> None:
    text = curl("-H", f"Accept: {V}", f"{url}/query-stream", data=sql("SELECT * FROM totals WHERE item = 'none';"))
    assert text.endswith('`TOTAL` DOUBLE"}}]')
    assert len(json.loads(text)) == 1


@pytest.mark.rules("R9.9")
@pytest.mark.parametrize("accept", ["*/*", "application/json", V, "application/vnd.ksql.v1+protobuf"])
def test_a_pull_query_sends_its_header_and_each_row_in_chunks_of_their_own(url: str, accept: str) -> None:
    raw = curl(
        "--http1.1", "--raw", "-H", f"Accept: {accept}", f"{url}/query-stream", data=sql("SELECT * FROM totals;")
    )
    chunks = re.split(r"(?:^|\n)[0-9a-f]+\n", raw)
    header, first, second, *_ = chunks[1:]
    assert "queryId" in header
    assert "\n" not in header.rstrip()
    assert all(re.search(r"\[\"(milk|tea)\",|protobufBytes", row) for row in (first, second))


@pytest.mark.rules("R9.4", "R9.7")
def test_a_pull_query_of_a_stream_ends(url: str) -> None:
    text = curl("-H", f"Accept: {V}", f"{url}/query", data=json.dumps({"ksql": "SELECT id FROM orders;"}))
    assert text.splitlines()[1:] == [
        '{"row":{"columns":[1]}},',
        '{"row":{"columns":[2]}},',
        '{"row":{"columns":[3]}},',
        '{"finalMessage":"Query Completed"}]',
    ]


@pytest.mark.rules("R9.13", "R9.4")
def test_a_push_query_ends_at_its_limit_and_frees_everything(url: str, server: Running) -> None:
    text = curl(
        "-H", f"Accept: {V}", f"{url}/query-stream", data=sql("SELECT id, price FROM orders EMIT CHANGES LIMIT 2;")
    )
    header, *rows = json.loads(text)
    assert header["header"]["schema"] == "`ID` INTEGER, `PRICE` DOUBLE"
    assert rows == [{"row": {"columns": [1, 2.5]}}, {"row": {"columns": [2, 1.0]}}, {"finalMessage": "Limit Reached"}]
    eventually(lambda: server.service.figures().push_queries == 0)


@pytest.mark.rules("R9.12", "R9.13", "R10.5")
def test_clients_from_now_share_a_query_and_see_what_comes(url: str, server: Running) -> None:
    asked = {
        "sql": "SELECT id FROM orders WHERE item = 'salt' EMIT CHANGES;",
        "properties": {"auto.offset.reset": "latest"},
    }
    with (
        http.stream("POST", f"{url}/query-stream", json=asked, timeout=90) as one,
        http.stream("POST", f"{url}/query-stream", json=asked, timeout=90) as two,
    ):
        first, second = one.iter_lines(), two.iter_lines()
        ids = {json.loads(next(lines))["queryId"] for lines in (first, second)}
        assert len(ids) == 2
        figures = server.service.figures()
        assert (figures.push_queries, figures.push_clients) == (1, 2)
        ksql(url, "INSERT INTO orders (id, item) VALUES (10, 'salt');")
        assert [next(first), next(second)] == ["[10]", "[10]"]
        assert http.post(f"{url}/close-query", json={"queryId": min(ids)}).status_code == 200
    eventually(lambda: server.service.figures().push_clients == 0)
    assert http.post(f"{url}/close-query", json={"queryId": min(ids)}).json()["error_code"] == 40000


@pytest.mark.rules("R9.3", "R9.10")
def test_a_push_query_over_a_table_shows_tombstones_as_objects_only(url: str) -> None:
    ksql(
        url,
        "CREATE TABLE people (id INT PRIMARY KEY, name STRING) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON',"
        " PARTITIONS=1);",
    )
    ksql(url, "INSERT INTO people (id, name) VALUES (1, 'Ada'); INSERT INTO people (id, name) VALUES (1, 'Bob');")
    asked = sql("SELECT * FROM people WHERE name = 'Ada' EMIT CHANGES LIMIT 2;")
    rows = json.loads(curl("-H", f"Accept: {V}", f"{url}/query-stream", data=asked))[1:3]
    assert rows == [{"row": {"columns": [1, "Ada"]}}, {"row": {"columns": [1, None], "tombstone": True}}]


@pytest.mark.rules("R9.9")
@pytest.mark.parametrize("kind", ["", "EMIT CHANGES"])
def test_header_and_rows_of_a_query_are_frames_of_their_own(url: str, kind: str) -> None:
    with Http2Client(url) as client:
        stream = client.begin("POST", "/query-stream")
        text = f"SELECT * FROM totals {kind} LIMIT 2;"
        client.data(stream, sql(text).encode(), ends=True)
        client.answer(stream)
        frames = [frame for frame in client.frames[stream] if frame]
    assert [frame.count(b"\n") for frame in frames] == [1, 1, 1]
    assert b"queryId" in frames[0]


@pytest.mark.rules("R9.11", "R4.1")
@pytest.mark.parametrize(
    ("path", "accept", "body", "status", "code"),
    [
        ("/query-stream", "*/*", {}, 400, 40000),
        ("/query-stream", "*/*", {"sql": "LIST STREAMS;"}, 400, 40001),
        ("/query-stream", "*/*", {"sql": "SELECT 1 FROM orders; SELECT 2 FROM orders;"}, 400, 40001),
        ("/query-stream", "*/*", {"sql": "SELECT nothing FROM orders EMIT CHANGES;"}, 400, 40001),
        ("/query-stream", "*/*", {"sql": "SELECT * FROM nowhere;"}, 400, 40001),
        ("/close-query", "*/*", {}, 400, 40000),
    ],
)
def test_refusals(url: str, path: str, accept: str, body: dict[str, str], status: int, code: int) -> None:
    answer = http.post(url + path, json=body, headers={"accept": accept})
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)
    if path == "/query-stream" and code == 40001:
        assert "\nStatement: " in answer.json()["message"]


@pytest.mark.rules("R9.11")
@pytest.mark.parametrize("accept", ["text/html", "application/xml"])
def test_who_takes_no_format_of_queries_finds_none(url: str, accept: str) -> None:
    body = {"ksql": "SELECT * FROM orders;", "sql": "SELECT * FROM orders;"}
    for path in ("/query", "/query-stream"):
        answer = http.post(url + path, json=body, headers={"accept": accept})
        assert (answer.status_code, answer.text) == (404, "Not Found")


@pytest.mark.rules("R10.3")
def test_inserts_are_acknowledged_in_order(url: str) -> None:
    rows = "".join(f'{{"id":{100 + n},"item":"pin","price":{n}}}\n' for n in range(300))
    text = curl("--http2-prior-knowledge", f"{url}/inserts-stream", data='{"target":"orders"}\n' + rows)
    assert [json.loads(line) for line in text.splitlines()] == [{"seq": n, "status": "ok"} for n in range(300)]


@pytest.mark.rules("R10.4")
@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"id":1,"price":"x"}', "row 1: Can't coerce a field of type String to column `PRICE`"),
        ('{"item":"a"}', "row 1: Key field must be specified: ID"),
        ('{"id":1,"ID":2}', "row 1: Found duplicate column names"),
        ("[1]", "row 1: Invalid JSON"),
    ],
)
def test_an_insert_that_fails_names_its_row_and_ends(url: str, row: str, says: str) -> None:
    text = curl(
        "--http2-prior-knowledge",
        f"{url}/inserts-stream",
        data=f'{{"target":"orders"}}\n{{"id":9}}\n{row}\n{{"id":9}}\n',
    )
    first, last = map(json.loads, text.splitlines())
    assert first == {"seq": 0, "status": "ok"}
    assert (last["seq"], last["status"], last["error_code"]) == (1, "error", 40000)
    assert last["message"].startswith(says)


@pytest.mark.rules("R10.2")
def test_inserts_need_http_2_and_a_target(url: str) -> None:
    assert http.post(f"{url}/inserts-stream", content="{}").json()["error_code"] == 40004
    answer = curl("--http2-prior-knowledge", f"{url}/inserts-stream", data='{"target":"nowhere"}\n')
    assert json.loads(answer)["error_code"] == 40001


@pytest.mark.rules("R10.3")
def test_acks_come_while_the_request_is_still_open(url: str) -> None:
    with Http2Request(url, "/inserts-stream") as request:
        request.send(b'{"target":"`ORDERS`"}\n{"id":7}\n')
        assert json.loads(request.line())["seq"] == 0
        request.send(b'{"id":8}\n')
        assert json.loads(request.line())["seq"] == 1


@pytest.mark.rules("R10.1")
def test_print_shows_records(url: str) -> None:
    text = curl("--http1.1", f"{url}/query", data=json.dumps({"ksql": "PRINT orders FROM BEGINNING LIMIT 1;"}))
    lines = text.splitlines()
    assert lines[:2] == ["Key format: KAFKA_INT or KAFKA_STRING", "Value format: JSON or KAFKA_STRING"]
    assert 'key: {"ID":1}' in lines[2] or "key: 1" in lines[2]
    assert '"ITEM":"tea"' in lines[2]


@pytest.mark.rules("R12.1")
def test_a_query_over_a_websocket(url: str) -> None:
    def frames(text: str) -> tuple[list[Any], int]:
        request = quote(json.dumps({"ksql": text, "streamsProperties": EARLIEST}))
        with connect(f"{url.replace('http', 'ws')}/ws/query?version=1&request={request}") as socket:
            found = []
            with suppress(ConnectionClosed):
                while True:
                    found.append(json.loads(socket.recv()))
            return found, socket.close_code or 0

    fields, row, end = frames("SELECT id FROM orders EMIT CHANGES LIMIT 1;")[0]
    assert fields[0]["name"] == "ID"
    assert (row, end) == ({"row": {"columns": [1]}}, {"error": "done"})
    assert frames("PRINT orders FROM BEGINNING LIMIT 1;")[0][0].startswith("rowtime: ")
    refused, code = frames("SELECT * FROM nowhere;")
    assert "NOWHERE" in refused[0]["error"]
    assert code == 1003


def handshake(text: str, *headers: str) -> bytes:
    """The head of a request for a websocket."""
    lines = [f"GET /ws/query?request={quote(json.dumps({'ksql': text}))} HTTP/1.1", "Host: localhost"]
    lines += [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: x",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@pytest.mark.rules("R12.2")
def test_a_websocket_that_is_not_one_leaves_nothing(
    url: str, server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    pushed, open_sockets = "SELECT * FROM orders EMIT CHANGES;", sockets()
    for sent in (
        handshake(pushed) + b"\x81\x80abcd",
        handshake(pushed) + b"\xff" * 200,
        handshake(pushed, 'Sec-WebSocket-Extensions: permess\xe4ge; x="'),
    ):
        with create_connection(("127.0.0.1", server.listener.port), timeout=60) as connection:
            connection.sendall(sent)
            assert connection.recv(1 << 16).startswith((b"HTTP/1.1 400", b"HTTP/1.1 101"))
    eventually(lambda: server.service.figures().push_clients == 0 and sockets() <= open_sockets)
    assert not caplog.records
