"""`qtt run --ksqldb-server`: cases on a server that runs, Kestrel's own and ksqlDB's, `../shared/oracle/server.sh`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kestrel_qtt.cli.main import ExitCode, main
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.ksqldb import needs_ksqldb, start_ksqldb
from tests.kafka.servers import Server, Servers, eventually

CASES = """
tests:
- name: a chain of a join and a count
  statements:
  - CREATE STREAM clicks (id INT KEY, n INT) WITH (kafka_topic='clicks', value_format='JSON', partitions=2);
  - CREATE TABLE users (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='users', value_format='JSON', partitions=2);
  - CREATE STREAM named AS SELECT c.id AS id, n, name FROM clicks c LEFT JOIN users u ON c.id = u.id;
  - CREATE TABLE counted AS SELECT name, COUNT(*) AS c FROM named GROUP BY name;
  inputs:
  - {topic: clicks, key: 1, value: {n: 1}, timestamp: 0}
  - {topic: users, key: 1, value: {name: "ann"}, timestamp: 10}
  - {topic: clicks, key: 1, value: {n: 2}, timestamp: 20}
  - {topic: clicks, key: 1, value: {n: 3}, timestamp: 30}
  outputs:
  - {topic: NAMED, key: 1, value: {N: 1, NAME: null}, timestamp: 0}
  - {topic: NAMED, key: 1, value: {N: 2, NAME: "ann"}, timestamp: 20}
  - {topic: NAMED, key: 1, value: {N: 3, NAME: "ann"}, timestamp: 30}
  - {topic: COUNTED, key: "ann", value: {C: 1}, timestamp: 20}
  - {topic: COUNTED, key: "ann", value: {C: 2}, timestamp: 30}
- name: a refusal
  statements: [CREATE STREAM t AS SELECT * FROM nothing;]
  expectedException: {message: no system says this}
- name: a wrong expectation
  statements:
  - CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
  - CREATE STREAM t AS SELECT a + 1 AS b FROM s;
  - INSERT INTO s (a) VALUES (1);
  outputs:
  - {topic: T, value: {B: 3}}
"""

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("is_ksqldb", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_cases_on_a_server_that_runs(
    kafka: KafkaConfig, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_ksqldb: bool
) -> None:
    if is_ksqldb:
        needs_ksqldb()
    file, new = tmp_path / "cases.yaml", tmp_path / "new.yaml"
    file.write_text(CASES)
    new.write_text(CASES.partition("  outputs:")[0])
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        server = start_ksqldb(kafka.servers, servers.service, tmp_path, stack) if is_ksqldb else servers.here(spark)
        eventually(server.is_up, server)
        before = topics(kafka)
        options = ["--ksqldb-server", server.url, "--kafka", kafka.servers]
        assert main(["run", str(file), *options]) == ExitCode.FAILURES
        said = capsys.readouterr().out
        assert "2 passed, 1 failed" in said, said
        assert "3 (integer)" in said
        if is_ksqldb:
            assert main(["approve", str(new), *options]) == ExitCode.OK
            assert main(["run", "--local", str(new)]) == ExitCode.OK
        assert left_of(server) == []
        eventually(lambda: not {name for name in topics(kafka) - before if name.startswith("qtt")}, server)


def topics(kafka: KafkaConfig) -> set[str]:
    return set(admin_client(kafka).list_topics(timeout=10).topics)


def left_of(server: Server) -> list[str]:
    found = server.ksql("SHOW STREAMS; SHOW TABLES; SHOW QUERIES;")
    listed = [*found[0]["streams"], *found[1]["tables"], *found[2]["queries"]]
    return [each.get("name", each.get("id")) for each in listed if each.get("name") != "KSQL_PROCESSING_LOG"]
