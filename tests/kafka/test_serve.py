"""`kestrel serve` against a broker, as a user runs it: a process of its own, asked over HTTP, killed, and followed by its standby."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import environment, read
from tests.kafka.processes import ending, kill

pytestmark = pytest.mark.spark

EARLIEST = {"auto.offset.reset": "earliest"}
V = {"accept": "application/vnd.ksql.v1+json"}


@dataclass(slots=True)
class Server:
    """A server process and how to ask it."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/info", timeout=60).json()["KsqlServerInfo"]["serverStatus"] == "RUNNING"
        except (httpx.TransportError, ValueError):
            return False

    def ksql(self, text: str, **more: Any) -> Any:
        body = {"ksql": text, "streamsProperties": EARLIEST, **more}
        answer = httpx.post(f"{self.url}/ksql", json=body, timeout=180)
        return answer.json()

    def query(self, text: str, properties: dict[str, str] = EARLIEST) -> list[Any]:
        body = {"sql": text, "properties": properties}
        answer = httpx.post(f"{self.url}/query-stream", json=body, timeout=180)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()[1:]]


@dataclass(slots=True)
class Servers:
    """Starts servers of one service."""

    servers: str
    folder: Path
    stack: ExitStack
    service: str = field(default_factory=lambda: f"s{uuid4().hex[:8]}_")

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service}_command_topic"

    def start(self, *options: str) -> Server:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = self.folder / f"serve{port}.log"
        command = [sys.executable, "-m", "kestrel_sql.cli.main", "serve", "--listen", f"127.0.0.1:{port}"]
        command += ["--bootstrap-servers", self.servers, "--checkpoint", str(self.folder / "checkpoint")]
        command += ["--service-id", self.service, "--master", "local[2]", *options]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment())
        self.stack.enter_context(ending(process))
        return Server(f"http://127.0.0.1:{port}", process, log)


def eventually(holds: Callable[[], bool], server: Server, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert server.process.poll() is None, server.log.read_text()
        assert time.monotonic() < deadline, f"it did not come true in time: {server.log.read_text()}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def service(kafka: KafkaConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(kafka.servers, tmp_path_factory.mktemp("serve"), stack)


@pytest.fixture(scope="module")
def server(service: Servers) -> Server:
    """A server with a stream of two partitions, a table over it, and three rows."""
    server = service.start()
    eventually(server.is_up, server)
    text = f"""
        CREATE STREAM orders (id INT KEY, item STRING, price DOUBLE)
          WITH (KAFKA_TOPIC='{service.service}orders', VALUE_FORMAT='JSON', PARTITIONS=2);
        CREATE TABLE totals WITH (KAFKA_TOPIC='{service.service}totals') AS
          SELECT item, COUNT(*) AS n, SUM(price) AS total FROM orders GROUP BY item;
    """
    found = server.ksql(text)
    assert [each["commandSequenceNumber"] for each in found] == [0, 2]
    assert found[1]["commandStatus"]["queryId"] == "CTAS_TOTALS_1"
    for row in ("1, 'tea', 2.5", "2, 'milk', 1", "3, 'tea', 2 + 2"):
        assert server.ksql(f"INSERT INTO orders (id, item, price) VALUES ({row});") == []
    eventually(lambda: server.query("SELECT * FROM totals WHERE item = 'tea';") == [["tea", 2, 6.5]], server)
    return server


@pytest.mark.rules("R5.1", "R9.9")
def test_commands_stand_in_the_command_topic_as_ksqldb_writes_them(service: Servers, server: Server) -> None:
    records = read(service.servers, service.command_topic, 1)
    assert [key for _, key, _, _ in records[:2]] == [b'"stream/`ORDERS`/create"', b'"table/`TOTALS`/create"']
    value = json.loads(records[1][2] or b"")
    assert set(value) == {"statement", "streamsProperties", "originalProperties", "plan", "version"}
    assert (value["version"], value["streamsProperties"]) == (18, EARLIEST)
    assert value["plan"]["@type"] == "ksqlPlanV1"
    assert value["plan"]["queryPlan"]["queryId"] == "CTAS_TOTALS_1"


def test_pull_queries_by_key_by_range_and_of_a_stream(server: Server) -> None:
    assert server.query("SELECT n, total FROM totals WHERE item IN ('milk', 'none');") == [[1, 1.0]]
    assert sorted(server.query("SELECT item FROM totals WHERE n < 5 LIMIT 5;")) == [["milk"], ["tea"]]
    assert sorted(server.query("SELECT id FROM orders WHERE item = 'tea';")) == [[1], [3]]


def test_push_queries_from_the_beginning_and_from_now_on(server: Server) -> None:
    assert min(server.query("SELECT id, item FROM orders EMIT CHANGES LIMIT 3;")) == [1, "tea"]
    asked = {"sql": "SELECT id FROM orders WHERE item = 'salt' EMIT CHANGES;", "properties": {}}
    with (
        httpx.stream("POST", f"{server.url}/query-stream", json=asked, timeout=180) as one,
        httpx.stream("POST", f"{server.url}/query-stream", json=asked, timeout=180) as two,
    ):
        first, second = one.iter_lines(), two.iter_lines()
        query_id = json.loads(next(first))["queryId"]
        next(second)
        assert "kestrel_push_queries 1.0" in httpx.get(f"{server.url}/metrics", timeout=60).text
        server.ksql("INSERT INTO orders (id, item) VALUES (10, 'salt');")
        assert [next(first), next(second)] == ["[10]", "[10]"]
        assert httpx.post(f"{server.url}/close-query", json={"queryId": query_id}, timeout=60).status_code == 200
    eventually(lambda: "kestrel_push_clients 0.0" in httpx.get(f"{server.url}/metrics", timeout=60).text, server)


def test_inserts_are_acknowledged_when_the_broker_has_them(service: Servers, server: Server) -> None:
    server.ksql(
        f"CREATE STREAM pins (id INT KEY, n INT) WITH (KAFKA_TOPIC='{service.service}pins', VALUE_FORMAT='JSON', PARTITIONS=1);"
    )
    rows = "".join(f'{{"id":{n},"n":{n}}}\n' for n in range(500))
    with httpx.Client(http1=False, http2=True, timeout=180) as client:
        answer = client.post(f"{server.url}/inserts-stream", content='{"target":"pins"}\n' + rows)
    assert [json.loads(line) for line in answer.text.splitlines()] == [{"seq": n, "status": "ok"} for n in range(500)]
    values = [json.loads(value or b"") for _, _, value, _ in read(service.servers, f"{service.service}pins", 1)]
    assert values == [{"N": n} for n in range(500)]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "CREATE STREAM lost (id INT) WITH (KAFKA_TOPIC='lost', VALUE_FORMAT='JSON');",
            "the topic lost does not exist",
        ),
        ("TERMINATE NOTHING_7;", "Unknown queryId: NOTHING_7"),
        ("CREATE STREAM bad AS SELECT nothing FROM orders;", "NOTHING"),
    ],
)
def test_what_is_refused_leaves_no_command(service: Servers, server: Server, statement: str, says: str) -> None:
    before = len(read(service.servers, service.command_topic, 1))
    found = server.ksql(statement)
    assert (found["error_code"] // 100, says in found["message"]) == (400, True), found
    assert len(read(service.servers, service.command_topic, 1)) == before


def test_a_standby_takes_over_from_a_server_that_was_killed(service: Servers, server: Server) -> None:
    server.ksql("PAUSE CTAS_TOTALS_1;")
    server.ksql("CREATE STREAM gone AS SELECT id, n FROM pins EMIT CHANGES; DROP STREAM gone DELETE TOPIC;")
    server.ksql("INSERT INTO orders (id, item, price) VALUES (4, 'tea', 1);")
    standby = service.start()
    eventually(lambda: b"waiting as its standby" in standby.log.read_bytes(), standby)
    kill(server.process)
    eventually(standby.is_up, standby, 60)
    names = {each["name"] for each in standby.ksql("SHOW STREAMS;")[0]["streams"]}
    assert names == {"ORDERS", "PINS"}
    (query,) = standby.ksql("SHOW QUERIES;")[0]["queries"]
    assert (query["id"], query["state"]) == ("CTAS_TOTALS_1", "PAUSED")
    assert standby.query("SELECT * FROM totals WHERE item = 'tea';") == [["tea", 2, 6.5]]
    standby.ksql("RESUME CTAS_TOTALS_1;")
    eventually(lambda: standby.query("SELECT * FROM totals WHERE item = 'tea';") == [["tea", 3, 7.5]], standby)
    counts = [
        json.loads(value or b"{}")["N"]
        for _, key, value, _ in read(service.servers, f"{service.service}totals", 2)
        if key == b"tea"
    ]
    assert counts == [1, 2, 3]
    (found,) = standby.ksql("CREATE TABLE more AS SELECT id, MAX(n) AS most FROM pins GROUP BY id;")
    assert found["commandStatus"]["queryId"].startswith("CTAS_MORE_")
    eventually(lambda: standby.query("SELECT most FROM more WHERE id = 7;") == [[7]], standby)
    standby.ksql("TERMINATE ALL;")
    assert standby.ksql("SHOW QUERIES;")[0]["queries"] == []
    standby.process.terminate()
    assert standby.process.wait(120) == 0, standby.log.read_text()
