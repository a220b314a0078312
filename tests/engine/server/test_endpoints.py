"""Every endpoint and every error of the API, by raw HTTP, on a server whose topics are in memory."""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from kestrel_sql.errors import EngineError
from kestrel_sql.formats.registry.memory import MissingRegistry
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.server import errors
from kestrel_sql.server.http.app import ENDPOINTS
from kestrel_sql.server.memory.backend import MemoryBackend
from kestrel_sql.server.open import ServerSettings, memory_server
from kestrel_sql.server.service import State
from kestrel_sql.session.insert_values import Constants
from kestrel_sql.session.session import Session
from tests.endpoints import examples
from tests.engine.server.servers import http, ksql, sparkless_server

ORDERS = (
    "CREATE STREAM orders (id INT KEY, item STRING) WITH (kafka_topic='orders', value_format='JSON', partitions=1);"
)
SELECT = "SELECT * FROM orders LIMIT 0;"
NESTED: Any = []
for _ in range(300):
    NESTED = [NESTED]
NO_INSERTS = {"ksql.insert.into.values.enabled": False}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with sparkless_server() as running:
        ksql(running.url, ORDERS)
        yield running.url


EXAMPLES = [each for endpoint in ENDPOINTS for each in examples(endpoint)]

ANSWERS: list[tuple[str, str, Any, int]] = [
    ("POST", "/ksql", {"ksql": "", "nobody": "knows this"}, 200),
    ("GET", "/info", {}, 200),
    ("GET", "/status/stream%2F%60ORDERS%60%2Fcreate", None, 200),
    ("GET", "/is_valid_property/ksql.streams.auto.offset.reset", None, 200),
]

ERRORS: list[tuple[str, str, Any, int, int, str]] = [
    ("POST", "/ksql", {"ksql": "LIST TYPES;", "streamsProperties": []}, 400, 40000, "streamsProperties"),
    ("POST", "/ksql", {"ksql": "LIST TYPES;", "sessionVariables": 1}, 400, 40000, "sessionVariables"),
    ("POST", "/ksql", {"ksql": "LIST TYPES;", "commandSequenceNumber": "1"}, 400, 40000, "commandSequenceNumber"),
    ("POST", "/ksql", {"ksql": "CREATE SOURCE CONNECTOR c WITH ('a'='b');"}, 400, 40001, "connectors"),
    ("POST", "/ksql", {"ksql": "DROP CONNECTOR c;"}, 400, 40001, "connectors"),
    ("POST", "/ksql", {"ksql": "DESCRIBE CONNECTOR c;"}, 400, 40001, "connectors"),
    ("POST", "/ksql", {"ksql": "ALTER SYSTEM 'auto.offset.reset'='soon';"}, 400, 40000, "soon"),
    ("POST", "/ksql", {"ksql": "SELECT * FROM orders;"}, 400, 40002, "/query"),
    ("POST", "/ksql", {"ksql": "ASSERT SCHEMA SUBJECT 'none';"}, 417, 41700, "none"),
    ("POST", "/ksql/terminate", {"deleteTopicList": "a"}, 400, 40000, "list of strings"),
    *(
        ("POST", "/ksql/terminate", {"deleteTopicList": bad}, 400, 40000, "list of strings")
        for bad in (0, False, "", {}, [1], [None], 0.0)
    ),
    *(
        ("POST", path, bad, 400, 40000, "JSON object")
        for path in ("/ksql", "/ksql/terminate", "/query", "/query-stream", "/close-query")
        for bad in (None, [], 0, False, "", "text")
    ),
    *(
        ("POST", path, {member: bad}, 400, 40000, member)
        for path, member in (
            ("/ksql", "commandSequenceNumber"),
            *(
                (path, each)
                for path in ("/ksql", "/query")
                for each in ("ksql", "streamsProperties", "requestProperties", "sessionVariables")
            ),
            *(("/query-stream", each) for each in ("sql",)),
            *(("/close-query", each) for each in ("queryId",)),
        )
        for bad in (False, [], 0.5)
    ),
    *(
        ("POST", "/query-stream", {"sql": SELECT, member: bad}, 400, 40000, member)
        for member in ("properties", "requestProperties", "sessionVariables")
        for bad in (0, False, "", [])
    ),
    ("POST", "/ksql", {"ksql": "LIST TYPES;", "sessionVariables": {"a": NESTED}}, 400, 40000, "sessionVariables"),
    *(
        ("POST", "/query-stream", {"sql": SELECT, "properties": {"auto.offset.reset": bad}}, 400, 40000, "auto.offset")
        for bad in ({}, [{}], [["earliest"]], False)
    ),
    ("POST", "/ksql/terminate", {"deleteTopicList": ["a["]}, 400, 40000, "Invalid pattern 'a['"),
    *(
        ("POST", "/query", body, 400, 40000, '"ksql" field must be populated')
        for body in ({}, {"ksql": None}, {"ksql": ""}, {"ksql": " \n"}, {"sql": SELECT})
    ),
    ("POST", "/query", {"ksql": "-- nothing"}, 400, 40001, "Expected exactly one KSQL statement; found 0 instead"),
    ("POST", "/query-stream", {"sql": " "}, 400, 40001, "Expected exactly one KSQL statement; found 0 instead"),
    ("POST", "/query", {"ksql": "LIST STREAMS;"}, 400, 40000, "not supported"),
    ("POST", "/query", {"ksql": "PRINT nowhere;"}, 400, 40000, "nowhere"),
    ("POST", "/query-stream", {"sql": SELECT, "properties": {"nonsense": 1}}, 400, 40000, "nonsense"),
    ("POST", "/inserts-stream", None, 400, 40004, "HTTP2"),
    ("POST", "/close-query", {"queryId": "nobody"}, 400, 40000, "nobody"),
    ("GET", "/clusterStatus", None, 404, 40400, "Heartbeats"),
    ("POST", "/heartbeat", {"hostInfo": "h:1", "timestamp": 1}, 400, 50000, "cluster"),
    ("POST", "/lag", {"ksqlHost": "h:1", "hostStoreLags": {}}, 400, 50000, "cluster"),
    ("GET", "/status/stream/`NOBODY`/create", None, 404, 40400, "Command not found"),
    ("GET", "/is_valid_property/ksql.service.id", None, 400, 40000, "ksql.service.id"),
    ("GET", "/is_valid_property/ksql.service.id", None, 400, 40000, "prohibited"),
    ("GET", "/ui/nothing.js", None, 404, 40400, "No such file"),
    ("GET", "/ui/plan/NOBODY", None, 404, 40000, "NOBODY"),
]

LIMIT = "ksql.query.persistent.active.limit"


SPEC = {
    "GET": [
        *("/", "/info", "/healthcheck", "/clusterStatus", "/v1/metadata", "/v1/metadata/id", "/status"),
        *("/status/stream/`ORDERS`/create", "/is_valid_property/ksql.service.id", "/chc/ready", "/chc/live"),
    ],
    "POST": [
        *("/ksql", "/ksql/terminate", "/query", "/query-stream", "/inserts-stream", "/close-query"),
        *("/heartbeat", "/lag"),
    ],
}
"""The endpoints of ksqlDB's API."""


def test_every_endpoint_of_ksqldb_is_offered() -> None:
    routes = [route for endpoint in ENDPOINTS for route in endpoint.routes() if isinstance(route, Route)]
    asked = [(method, path) for method, paths in SPEC.items() for path in paths]
    assert [
        (method, path)
        for method, path in asked
        if not any(method in (route.methods or ()) and route.path_regex.match(path) for route in routes)
    ] == []


@pytest.mark.rules("R4.1")
@pytest.mark.parametrize("name", [name for name, value in vars(errors).items() if isinstance(value, int)])
def test_every_error_code_is_sent_by_a_test(name: str) -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert re.search(rf"\b{getattr(errors, name)}\b", tests)


def test_every_path_has_an_example() -> None:
    for endpoint in ENDPOINTS:
        asked = [(each.method, each.path.partition("?")[0]) for each in examples(endpoint)]
        for route in endpoint.routes():
            assert isinstance(route, Route | WebSocketRoute)
            assert any(method == endpoint.method and route.path_regex.match(path) for method, path in asked), route.path


@pytest.mark.rules("R3.1", "R3.2")
@pytest.mark.parametrize("version", ["1.1", "2"])
def test_an_example_is_answered_as_it_says(version: str) -> None:
    with sparkless_server() as running, httpx.Client(http1=version == "1.1", http2=version == "2") as client:
        ksql(running.url, ORDERS)
        # The one that ends the service comes last.
        for each in sorted(EXAMPLES, key=lambda each: "terminate" in each.path):
            if each.method == "WS":
                with connect(f"{running.url.replace('http', 'ws')}{each.path}") as socket:
                    assert socket.response is not None
                    assert socket.response.status_code == each.status
                continue
            status = 400 if each.path == "/inserts-stream" and version == "1.1" else each.status
            answer = client.request(each.method, running.url + each.path, content=each.body)
            assert answer.status_code == status, each


def request(url: str, method: str, path: str, body: Any) -> httpx.Response:
    return http.request(method, url + path, content=None if body is None else json.dumps(body))


def http2_error(url: str, path: str, body: str) -> dict[str, Any]:
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        found: dict[str, Any] = client.post(url + path, content=body).json()
        return found


@pytest.mark.rules("R3.1")
@pytest.mark.parametrize(("method", "path", "body", "status"), ANSWERS)
def test_an_endpoint_answers(url: str, method: str, path: str, body: Any, status: int) -> None:
    answer = request(url, method, path, body)
    assert answer.status_code == status
    assert not {"server", "date", "x-powered-by"} & answer.headers.keys()


@pytest.mark.rules("R4.1")
@pytest.mark.parametrize(("method", "path", "body", "status", "code", "says"), ERRORS)
def test_an_endpoint_refuses(url: str, method: str, path: str, body: Any, status: int, code: int, says: str) -> None:
    answer = request(url, method, path, body)
    error = answer.json()
    assert (answer.status_code, error["error_code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert error["@type"] == ("statement_error" if "statementText" in error else "generic_error")
    assert says in error["message"]


@pytest.mark.rules("R10.2")
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("{", 40000, "JSON"),
        ("[]", 40000, "object"),
        ("{}", 40000, "target"),
        ('{"target":"orders","properties":{"nonsense":1}}', 40000, "nonsense"),
        *((json.dumps({"target": "orders", "properties": bad}), 40000, "properties must be") for bad in (0, "", [])),
        ("", 40000, "target"),
        (json.dumps({"target": "orders", "properties": NO_INSERTS}), 40000, "disabled INSERT INTO"),
        ('{"target":"`orders`"}', 40001, "orders"),
    ],
)
def test_rows_are_refused_before_the_first(url: str, line: str, code: int, says: str) -> None:
    error = http2_error(url, "/inserts-stream", f"{line}\n")
    assert error["error_code"] == code
    assert says in error["message"]


@pytest.mark.rules("R14.3")
def test_a_client_that_leaves_amid_its_body_is_no_failure(url: str, caplog: pytest.LogCaptureFixture) -> None:
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /ksql HTTP/1.1\r\nHost: {host}\r\nContent-Length: 900\r\n\r\n"
    for _ in range(3):
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(head.encode() + b'{"ksql":')
    assert http.get(f"{url}/info").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.mark.rules("R10.1")
def test_print_needs_http_1_on_query(url: str) -> None:
    assert http2_error(url, "/query", json.dumps({"ksql": "PRINT orders;"}))["error_code"] == 40500


@pytest.mark.rules("R12.1")
@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("version=2&request=%7B%7D", "version"),
        ("request=%7B", "JSON"),
        ("version=1", "JSON"),
        ("request=%7B%22ksql%22%3A%22LIST%20STREAMS%3B%22%7D", "not supported"),
    ],
)
def test_a_websocket_is_told_what_is_wrong(url: str, query: str, says: str) -> None:
    frames = []
    with connect(f"{url.replace('http', 'ws')}/ws/query?{query}") as client, suppress(ConnectionClosed):
        while True:
            frames.append(client.recv())
    assert len(frames) == 1
    assert says in json.loads(frames[0])["error"]


@pytest.mark.rules("R10.5", "R5.3")
@pytest.mark.parametrize("ends", ["/close-query", "/ksql"])
def test_a_push_query_is_ended_from_another_connection(url: str, ends: str) -> None:
    with http.stream("POST", f"{url}/query-stream", json={"sql": "SELECT * FROM orders EMIT CHANGES;"}) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        lines = answer.iter_lines()
        query_id = json.loads(next(lines))["queryId"]
        asked = http.post(url + ends, json={"queryId": query_id, "ksql": f"TERMINATE {query_id};"})
        assert asked.status_code == 200
        if ends == "/ksql":
            (entity,) = asked.json()
            assert (entity["@type"], entity["wasTerminated"]) == ("terminate_query", True)
        assert list(lines) == []


@pytest.mark.rules("R4.1")
def test_too_many_persistent_queries_are_refused_as_a_whole() -> None:
    with sparkless_server(config={LIMIT: 1}) as running:
        copies = "".join(f"CREATE STREAM copy{number} AS SELECT * FROM orders;" for number in range(2))
        refused = ksql(running.url, ORDERS + copies)
        assert (refused.status_code, refused.json()["error_code"]) == (400, 40000)
        assert "the configured limit of 1" in refused.json()["message"]
        assert ksql(running.url, "LIST STREAMS;").json()[0]["streams"] == []


@pytest.mark.rules("R4.1")
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM a (id INT) WITH (kafka_topic='a', value_format='AVRO', partitions=1);",
        "CREATE STREAM a WITH (kafka_topic='orders', value_format='JSON_SR');",
        "CREATE STREAM a WITH (value_format='PROTOBUF') AS SELECT * FROM orders;",
    ],
)
def test_what_needs_a_schema_registry_is_refused_where_there_is_none(statement: str) -> None:
    session = Session(registry=MissingRegistry())
    with memory_server(ServedEngine(session), ServerSettings(port=0)) as running:
        assert ksql(running.url, ORDERS).status_code == 200
        answer = ksql(running.url, statement)
        assert (answer.status_code, answer.json()["error_code"]) == (428, 42801)
        assert "--schema-registry" in answer.json()["message"]
        assert ksql(running.url, "LIST STREAMS;").json()[0]["streams"][0]["name"] == "ORDERS"


@pytest.mark.rules("R4.1", "R11.1")
def test_a_server_that_is_terminated_meanwhile_says_so() -> None:
    ends = threading.Event()

    class Lasting(ServedEngine):
        """An engine that takes its time to end its queries."""

        def flush(self) -> None:
            """Wait."""
            ends.wait(60)

    with memory_server(Lasting(Session()), ServerSettings(port=0)) as running:
        asked = threading.Thread(
            target=http.post, args=(f"{running.url}/ksql/terminate",), kwargs={"json": {}}, daemon=True
        )
        asked.start()
        deadline = time.monotonic() + 60
        while running.service.state is not State.TERMINATING and time.monotonic() < deadline:
            time.sleep(0.01)
        answer = ksql(running.url, "LIST STREAMS;")
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50303)
        health = http.get(f"{running.url}/healthcheck").json()
        assert (health["isHealthy"], health["serverState"]) == (False, "TERMINATING")
        ends.set()
        asked.join(60)
        answer = ksql(running.url, "LIST STREAMS;")
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50304)


@dataclass(slots=True)
class Broken(ServedEngine):
    """An engine that fails for a reason that nobody foresaw."""

    def constants(self) -> Constants:
        """Fail."""
        raise RuntimeError("/a/secret/path")


@pytest.mark.rules("R4.1", "R14.3")
def test_a_failure_that_nobody_foresaw_is_told_without_its_message() -> None:
    with memory_server(Broken(Session()), ServerSettings(port=0)) as running:
        ksql(running.url, ORDERS)
        answer = ksql(running.url, "INSERT INTO orders VALUES (1 + 1, 'a');")
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50000)
        assert "secret" not in answer.text
        assert ksql(running.url, "LIST TYPES;").status_code == 200


@pytest.mark.rules("R4.1", "R11.1")
@pytest.mark.parametrize(
    ("error", "traces"), [(RuntimeError("a fault of ours"), True), (EngineError("no Java", hint="get one"), False)]
)
def test_a_server_whose_spark_does_not_start_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception, *, traces: bool
) -> None:
    def fail(_: MemoryBackend) -> None:
        raise error

    monkeypatch.setattr(MemoryBackend, "start", fail)
    with sparkless_server() as running:
        deadline = time.monotonic() + 60
        while running.service.state is State.STARTING and time.monotonic() < deadline:
            time.sleep(0.01)
        answer = ksql(running.url, "LIST TYPES;")
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
        assert http.get(f"{running.url}/info").json()["KsqlServerInfo"]["serverStatus"] == "ERROR"
        assert http.get(f"{running.url}/healthcheck").json()["isHealthy"] is False
        assert http.get(f"{running.url}/chc/live").status_code == 200
    assert str(error) in caplog.text
    assert ("Traceback" in caplog.text) is traces


def test_a_port_is_free_again_when_the_engine_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no engine")

    monkeypatch.setattr("kestrel_sql.server.open.MemoryBackend", refuse)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    engine = ServedEngine(Session())
    for _ in range(2):
        with pytest.raises(ValueError, match="no engine"), memory_server(engine, ServerSettings(port=port)):
            pass


@pytest.mark.rules("R4.1")
def test_without_free_descriptors_what_opens_some_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrel_sql.server.descriptors.RESERVE", 1 << 40)
    select, created = "SELECT id, item FROM orders EMIT CHANGES;", "CREATE STREAM more AS SELECT * FROM orders;"
    asked = [("/ksql", {"ksql": created}), ("/query", {"ksql": "SELECT * FROM orders;"}), ("/query", {"ksql": select})]
    for path, body in [*asked, ("/query-stream", {"sql": select}), ("/query", {"ksql": "PRINT orders;"})]:
        answer = http.post(f"{url}{path}", json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50302), body
        assert "ulimit -n" in answer.json()["message"]
    for text in ("SHOW QUERIES;", "TERMINATE ALL;", "INSERT INTO orders (id) VALUES (1);", "DROP STREAM IF EXISTS no;"):
        assert ksql(url, text).status_code == 200, text
    assert http.get(f"{url}/info").status_code == 200


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")
def test_clients_that_cannot_be_accepted_are_told_of_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    address, before = url.removeprefix("http://").split(":"), resource.getrlimit(resource.RLIMIT_NOFILE)
    # More than other tests may have left open, and fewer than may wait.
    waiting = [socket.socket() for _ in range(80)]
    gc.collect()
    with ExitStack() as stack:
        for each in waiting:
            stack.enter_context(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 5, before[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        for each in waiting:
            each.connect((address[0], int(address[1])))
        deadline = time.monotonic() + 60
        while not caplog.records:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # The event loop tries again each second.
        time.sleep(1.5)
    (said,) = caplog.messages
    assert said.startswith("Clients wait to be accepted. The server has too many files and sockets open.")
    assert http.get(f"{url}/info").status_code == 200


def test_no_descriptor_for_a_socket_is_told_as_such(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_socket(*_: object, **__: object) -> None:
        try:
            raise OSError(24, "Too many open files")
        except OSError as error:
            raise ValueError("no connection") from error

    monkeypatch.setattr("kestrel_sql.server.serving.statements.Statements.validate", no_socket)
    answer = ksql(url, "SHOW QUERIES;")
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
