"""`kestrel serve` against a broker, as a user runs it.

A process of its own, asked over HTTP, killed, and followed by its standby; servers that are not killed run here.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.plan.codec.plan_file import encode_statement
from kestrel_sql.server.open import READY
from kestrel_sql.session.session import Session
from kestrel_sql.spark.state.checkpoint_path import open_store
from tests.engine.server.faces import FACES, VERSIONS, Place, check
from tests.kafka.helpers import create, produce, read, spark_options
from tests.kafka.processes import jvm_of, sockets
from tests.kafka.scenario import LEAN
from tests.kafka.servers import EARLIEST, OPENS_SPARK, Server, Servers, eventually, take_lease
from tests.kafka.stores import Way

pytestmark = pytest.mark.spark

_SLACK = 3
"""Threads and descriptors that come and go by chance, such as those of a connection."""
_IDLE = ("timeout", "evictorThreadRunInterval")
"""What says how long Spark keeps the consumers of a query that has ended."""


@pytest.fixture(scope="module")
def service(kafka: KafkaConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(kafka.servers, tmp_path_factory.mktemp("serve"), stack)


@pytest.fixture(scope="module")
def server(service: Servers) -> Server:
    """A server with a stream of two partitions, a table over it, and three rows."""
    server = service.start(*LEAN, *spark_options({f"spark.kafka.consumer.cache.{each}": "1s" for each in _IDLE}))
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
    # The second is answered as the first was planned.
    found = [server.query(f"SELECT n FROM totals WHERE item = '{item}';") for item in ("milk", "tea", "none")]
    assert found == [[[1]], [[2]], []]
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


def opened(server: Server) -> tuple[int, int, int]:
    """The threads and descriptors of a server's process, and the sockets of its JVM."""
    process = Path(f"/proc/{server.process}")
    return len([*(process / "task").iterdir()]), len([*(process / "fd").iterdir()]), sockets(jvm_of(server.process))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="threads and descriptors are counted in /proc")
@pytest.mark.parametrize("count", [2, pytest.param(2000, marks=pytest.mark.nightly)])
def test_queries_that_end_leave_no_threads_and_descriptors(service: Servers, server: Server, count: int) -> None:
    def run(*numbers: int) -> None:
        for number in numbers:
            topic = f"{service.service}made{number}"
            made = f"CREATE STREAM made WITH (KAFKA_TOPIC='{topic}') AS SELECT * FROM orders;"
            assert len(server.query("SELECT id FROM orders EMIT CHANGES LIMIT 1;")) == 1
            query = server.ksql(made)[0]["commandStatus"]["queryId"]
            eventually(lambda: len(server.query("SELECT id FROM made LIMIT 1;")) == 1, server)
            server.ksql(f"TERMINATE {query}; DROP STREAM made DELETE TOPIC;")

    run(0)
    before = opened(server)
    run(*range(1, count + 1))
    eventually(lambda: all(now <= then + _SLACK for now, then in zip(opened(server), before, strict=True)), server)


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")
def test_a_server_without_descriptors_says_so_works_on_and_ends(kafka: KafkaConfig, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        server = servers.start()
        eventually(server.is_up, server)
        server.ksql(
            f"CREATE STREAM s (id INT KEY, v INT) WITH (KAFKA_TOPIC='{servers.service}s', FORMAT='JSON', PARTITIONS=1);"
            "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id; INSERT INTO s VALUES (1, 1);"
        )
        eventually(lambda: server.query("SELECT n FROM t;") == [[1]], server)
        before = resource.prlimit(server.process, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process, resource.RLIMIT_NOFILE, (opened(server)[1] + 12, before[1]))
        for text in ("SELECT n FROM t;", "SELECT id FROM s EMIT CHANGES;"):
            answer = httpx.post(f"{server.url}/query-stream", json={"sql": text, "properties": EARLIEST}, timeout=60)
            assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
        assert server.ksql("CREATE STREAM c AS SELECT * FROM s;")["error_code"] == 50302
        assert server.is_up()
        resource.prlimit(server.process, resource.RLIMIT_NOFILE, before)
        assert server.query("SELECT v FROM s EMIT CHANGES LIMIT 1;") == [[1]]
        resource.prlimit(server.process, resource.RLIMIT_NOFILE, (opened(server)[1], before[1]))
        os.kill(server.process, signal.SIGTERM)
        eventually(lambda: not server.lives(), server)


@pytest.fixture(scope="module")
def acknowledged(service: Servers, server: Server) -> str:
    """What the server answered to 500 rows of a stream."""
    server.ksql(
        f"CREATE STREAM pins (id INT KEY, n INT) WITH (KAFKA_TOPIC='{service.service}pins', VALUE_FORMAT='JSON',"
        " PARTITIONS=1);"
    )
    rows = "".join(f'{{"id":{n},"n":{n}}}\n' for n in range(500))
    with httpx.Client(http1=False, http2=True, timeout=180) as client:
        return client.post(f"{server.url}/inserts-stream", content='{"target":"pins"}\n' + rows).text


def test_inserts_are_acknowledged_when_the_broker_has_them(service: Servers, acknowledged: str) -> None:
    assert [json.loads(line) for line in acknowledged.splitlines()] == [{"seq": n, "status": "ok"} for n in range(500)]
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
        (
            "CREATE STREAM bad AS SELECT o.id AS id, item FROM orders o JOIN single s WITHIN 1 HOUR ON o.id = s.id;",
            "partitions",
        ),
        (
            "CREATE STREAM bad (id INT) WITH (KAFKA_TOPIC='_confluent-ksql-x_y', VALUE_FORMAT='JSON', PARTITIONS=1);",
            "is internal",
        ),
        ("CREATE STREAM bad WITH (REPLICAS=3) AS SELECT id, item FROM orders;", "eplica"),
    ],
)
def test_what_is_refused_leaves_no_command(service: Servers, server: Server, statement: str, says: str) -> None:
    if "single" in statement:
        create(service.servers, 1, "single")
        server.ksql("CREATE STREAM single (id INT KEY) WITH (KAFKA_TOPIC='single', VALUE_FORMAT='JSON');")
    before = len(read(service.servers, service.command_topic, 1))
    found = server.ksql(statement)
    assert (found["error_code"] // 100, says in found["message"]) == (400, True), found
    assert len(read(service.servers, service.command_topic, 1)) == before
    assert not {"BAD", "lost", "_confluent-ksql-x_y"} & set(
        admin_client(KafkaConfig(servers=service.servers)).list_topics(timeout=60).topics
    )
    if "single" in statement:
        server.ksql("DROP STREAM single DELETE TOPIC;")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("point", FACES["asked"])
def test_a_server_on_a_broker_answers_as_one_in_memory(
    service: Servers, server: Server, point: str, version: str
) -> None:
    check(Place(server.url, "orders", f"{service.service}face_"), point, version)


def test_a_statement_that_fails_for_any_reason_leaves_nothing(
    kafka: KafkaConfig, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        server = servers.here(spark)
        eventually(server.is_up, server)
        kept, made = f"{servers.service}kept", f"{servers.service}made"
        first = f"CREATE STREAM kept (k INT KEY, v INT) WITH (KAFKA_TOPIC='{kept}', FORMAT='AVRO', PARTITIONS=1);"
        second = f"CREATE STREAM made WITH (KAFKA_TOPIC='{made}') AS SELECT * FROM kept;"
        for text, topic, step in (
            (first, kept, "command_topic.CommandTopic.write"),
            (first, kept, "backend.encode_statement"),
            (second, made, "queries.BrokerQueries.check"),
        ):
            if text == second:
                assert server.ksql(first)[0]["commandSequenceNumber"] == 0
            with monkeypatch.context() as patch:
                patch.setattr(f"kestrel_sql.server.broker.{step}", broken)
                assert server.ksql(text)["error_code"] == 50000, step
            nothing = f"ASSERT NOT EXISTS TOPIC '{topic}'; ASSERT NOT EXISTS SCHEMA SUBJECT '{topic}-value';"
            assert [each["@type"] for each in server.ksql(nothing)] == ["assert_topic", "assert_schema"], step
            assert server.ksql(f"DESCRIBE {'made' if text == second else 'kept'};")["error_code"] == 40001
        assert len(read(kafka.servers, servers.command_topic, 1)) == 1
        why_a_query_does_not_read(server, monkeypatch)


def why_a_query_does_not_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lag of a query is what it has to read, from the first moment; one that failed says why, and is resumed."""
    server.ksql("INSERT INTO kept VALUES (1, 2); INSERT INTO kept VALUES (3, 4);")
    monkeypatch.setattr("kestrel_sql.kafka.run.running_query.RunningQuery.start", lambda *_, **__: None)
    (made,) = server.ksql("CREATE STREAM late AS SELECT * FROM kept;")
    late = made["commandStatus"]["queryId"]
    metrics = httpx.get(f"{server.url}/metrics", timeout=60).text
    assert f'kestrel_query_lag_records{{query="{late}"}} 2.0' in metrics
    assert f'kestrel_query_state{{query="{late}",state="STARTING"}} 1.0' in metrics
    (task,) = server.ksql(f"EXPLAIN {late};")[0]["queryDescription"]["tasksMetadata"]
    assert (task["topicOffsets"][0]["endOffset"], task["topicOffsets"][0]["committedOffset"]) == (2, 0)
    with monkeypatch.context() as patch:
        patch.setattr("kestrel_sql.server.broker.queries.BrokerQueries._prepared", refused)
        failed = server.ksql("CREATE STREAM never AS SELECT * FROM kept;")[0]["commandStatus"]["queryId"]
        states = {each["id"]: each["state"] for each in server.ksql("SHOW QUERIES;")[0]["queries"]}
        assert states == {late: "STARTING", failed: "ERROR"}
        (error,) = server.ksql(f"EXPLAIN {failed};")[0]["queryDescription"]["queryErrors"]
        assert (error["errorMessage"], error["type"], error["timestamp"] > 0) == ("not today", "SYSTEM", True)
        assert "not today" in server.ksql("DESCRIBE never EXTENDED;")[0]["sourceDescription"]["errorStats"]
    server.ksql("RESUME ALL;")
    states = {each["id"]: each["state"] for each in server.ksql("SHOW QUERIES;")[0]["queries"]}
    assert states == {late: "STARTING", failed: "STARTING"}
    with monkeypatch.context() as patch:
        patch.setattr("kestrel_sql.kafka.run.declared_topics.Topics.delete", broken)
        assert server.ksql("DROP STREAM late DELETE TOPIC;")["error_code"] == 50000
    states = {each["id"]: each["state"] for each in server.ksql("SHOW QUERIES;")[0]["queries"]}
    assert states == {late: "STARTING", failed: "STARTING"}
    (dropped,) = server.ksql("DROP STREAM late DELETE TOPIC;")
    assert dropped["statementText"] == "DROP STREAM LATE;"
    assert server.ksql("ASSERT NOT EXISTS TOPIC 'LATE';")[0]["@type"] == "assert_topic"
    assert [each["id"] for each in server.ksql("SHOW QUERIES;")[0]["queries"]] == [failed]


def refused(*_: object, **__: object) -> None:
    raise QueryError("not today")


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("anything")


@pytest.mark.rules("E12.2.1")
def test_a_standby_takes_over_from_a_server_that_was_killed(
    service: Servers, server: Server, acknowledged: str, spark: SparkSession
) -> None:
    assert acknowledged.count('"ok"') == 500
    server.ksql("PAUSE CTAS_TOTALS_1; ALTER SYSTEM 'ksql.suppress.enabled' = 'false';")
    server.ksql("CREATE STREAM gone AS SELECT id, n FROM pins EMIT CHANGES; DROP STREAM gone DELETE TOPIC;")
    server.ksql("INSERT INTO orders (id, item, price) VALUES (4, 'tea', 1);")
    standby = service.here(spark)
    eventually(lambda: "waiting as its standby" in standby.said(), standby)
    eventually(lambda: READY in standby.said(), standby)
    # As if the server had been killed within its last batch, which the standby then does again.
    batches = service.checkpoint / "queries" / "CTAS_TOTALS_1" / "commits"
    max((each for each in batches.iterdir() if each.name.isdigit()), key=lambda each: int(each.name)).unlink()
    server.end()
    eventually(standby.is_up, standby, 60)
    status = httpx.get(f"{standby.url}/status/table/`TOTALS`/create", timeout=60).json()
    assert (status["message"], status["queryId"]) == ("Created query with ID CTAS_TOTALS_1", "CTAS_TOTALS_1")
    assert "pause/CTAS_TOTALS_1/execute" in httpx.get(f"{standby.url}/status", timeout=60).json()["commandStatuses"]
    assert "ksql.suppress.enabled" in standby.ksql("LIST PROPERTIES;")[0]["overwrittenProperties"]
    names = {each["name"] for each in standby.ksql("SHOW STREAMS;")[0]["streams"]}
    assert names == {"ORDERS", "PINS"}
    (query,) = standby.ksql("SHOW QUERIES;")[0]["queries"]
    assert (query["id"], query["statusCount"]) == ("CTAS_TOTALS_1", {"PAUSED": 1})
    asked = {"sql": "SELECT * FROM totals WHERE item = 'tea';"}
    answer = httpx.post(f"{standby.url}/query-stream", json=asked, timeout=60)
    assert json.loads(answer.text.splitlines()[1]) == ["tea", 2, 6.5]
    assert int(answer.headers["kestrel-lag-records"]) >= 1
    standby.ksql("RESUME CTAS_TOTALS_1;")
    eventually(lambda: standby.query("SELECT * FROM totals WHERE item = 'tea';") == [["tea", 3, 7.5]], standby)
    counts = [
        json.loads(value or b"{}")["N"]
        for _, key, value, _ in read(service.servers, f"{service.service}totals", 2)
        if key == b"tea"
    ]
    assert counts == [1, 2, 3]
    late = int(time.time() * 1000) - 7_200_000
    standby.ksql(f"INSERT INTO pins (ROWTIME, id, n) VALUES ({late}, 7, 1000);")
    (found,) = standby.ksql(
        "CREATE TABLE more AS SELECT id, MAX(n) AS most FROM pins"
        " WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS) GROUP BY id;"
    )
    more = found["commandStatus"]["queryId"]
    assert more.startswith("CTAS_MORE_")
    eventually(lambda: standby.query("SELECT most FROM more WHERE id = 7;") == [[7]], standby)
    metric = f'kestrel_query_late_records_total{{query="{more}"}} 1.0'
    eventually(lambda: metric in httpx.get(f"{standby.url}/metrics", timeout=60).text, standby)
    shown = httpx.get(f"{standby.url}/ui/data", timeout=60).json()["queries"]
    assert [each["late_records"] for each in shown if each["id"] == more] == [1]
    standby.ksql("TERMINATE ALL;")
    gone = httpx.post(f"{standby.url}/query-stream", json={"sql": "SELECT most FROM more WHERE id = 7;"}, timeout=60)
    assert "isn't queryable" in gone.json()["message"], gone.text
    assert standby.ksql("SHOW QUERIES;")[0]["queries"] == []


def test_a_command_topic_of_ksqldb_is_taken_over_with_the_checkpoint_behind_hadoop(
    kafka: KafkaConfig, spark: SparkSession, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack, Way((tmp_path / "store").as_uri()))
        checkpoint = tmp_path / "store" / servers.service
        commands, query = left_by_ksqldb(servers)
        stranger = replace(servers, store=None).here(spark)
        eventually(lambda: "has 3 commands, and the checkpoint knows none" in stranger.said(), stranger)
        assert OPENS_SPARK not in stranger.said()
        server = servers.here(spark, adopts=True)
        eventually(server.is_up, server)
        eventually(lambda: server.query("SELECT s FROM sums WHERE id = 1;") == [[10]], server)
        eventually(lambda: len(read(kafka.servers, f"{servers.service}out", 1)) == 1, server)
        said = " ".join(server.said().split())
        assert f"{query} goes on from the offsets that ksqlDB committed" in said
        assert "had read nothing: it reads" in said
        server = taken_over(servers, server, spark)
        assert server.query("SELECT s FROM sums WHERE id = 1;") == [[10]]
        assert server.query("SELECT n FROM events EMIT CHANGES LIMIT 4;") == [[1], [2], [3], [4]]
        # What a push query writes does not go to the store.
        assert {each.name for each in checkpoint.iterdir() if each.is_dir()} == {"lease", "queries"}
        assert len([*checkpoint.glob("queries/*/table.json")]) == 1
        (found,) = server.ksql("DROP STREAM big;")
        assert not (checkpoint / "queries" / query).exists()
        assert found["commandSequenceNumber"] == 3

        asked = {"deleteTopicList": [f"{servers.service}s.*"]}
        (found,) = httpx.post(f"{server.url}/ksql/terminate", json=asked, timeout=180).json()
        assert (found["commandId"], found["commandSequenceNumber"]) == ("terminate/CLUSTER/execute", 5)
        assert server.ksql("SHOW STREAMS;")["error_code"] == 50304
        eventually(lambda: topics_of(servers) == [f"{servers.service}in", f"{servers.service}out"], server)
        server.end()
        # A server that was killed before it had deleted all topics.
        create(kafka.servers, 1, servers.command_topic)
        end = {"statement": "TERMINATE CLUSTER;", "streamsProperties": {"deleteTopicList": [".*out"]}, "plan": None}
        produce(kafka.servers, servers.command_topic, [*commands, ("cluster", json.dumps(end), 1)])
        server = servers.here(spark)
        eventually(lambda: "out" not in "".join(topics_of(servers)), server)
        eventually(lambda: topics_of(servers) == [f"{servers.service}in"], server)
        assert server.ksql("SHOW STREAMS;")["error_code"] == 50304
        take_lease(open_store(spark, checkpoint.as_uri()))
        eventually(lambda: "another run has taken it (process 7 on other)" in server.said(), server)


def left_by_ksqldb(servers: Servers) -> tuple[list[tuple[str, str, int]], str]:
    """The commands of a service of ksqlDB, and the id of its query without state, which had read three of four rows."""
    create(servers.servers, 1, servers.command_topic, *(f"{servers.service}{each}" for each in ("in", "out", "sums")))
    text = f"""
        CREATE STREAM events (id INT KEY, n INT) WITH (KAFKA_TOPIC='{servers.service}in', VALUE_FORMAT='JSON');
        CREATE STREAM big WITH (KAFKA_TOPIC='{servers.service}out') AS SELECT id, n FROM events WHERE n > 1;
        CREATE TABLE sums WITH (KAFKA_TOPIC='{servers.service}sums') AS SELECT id, SUM(n) AS s FROM events GROUP BY id;
    """
    session, commands = Session(), []
    for parsed in session.parse(text):
        plan = session.execute(parsed).plan
        assert plan is not None
        value = {"statement": parsed.text, "streamsProperties": {}, "plan": encode_statement(plan), "version": 18}
        commands.append((json.dumps(f"stream/`{parsed.span.line}`/create"), json.dumps(value), 1))
    produce(servers.servers, servers.command_topic, commands)
    rows = [("\0\0\0\1", json.dumps({"n": n}), n) for n in range(1, 5)]
    produce(servers.servers, f"{servers.service}in", rows)
    query = next(name for name in session.queries if "BIG" in name)
    group = f"_confluent-ksql-{servers.service}query_{query}"
    with closing(Consumer({"bootstrap.servers": servers.servers, "group.id": group})) as consumer:
        consumer.commit(offsets=[TopicPartition(f"{servers.service}in", 0, 3)], asynchronous=False)
    return commands, query


def taken_over(servers: Servers, server: Server, spark: SparkSession) -> Server:
    """The standby of a server that has ended."""
    standby = servers.here(spark)
    eventually(lambda: "waiting as its standby" in standby.said(), standby)
    assert not standby.is_up()
    server.end()
    eventually(standby.is_up, standby)
    return standby


def topics_of(servers: Servers) -> list[str]:
    known = admin_client(KafkaConfig(servers=servers.servers)).list_topics(timeout=60).topics
    return sorted(name for name in known if servers.service in name)
