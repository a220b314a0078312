"""`kestrel plan` says what a start or a server then does; `kestrel apply` does it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from kestrel_sql.cli.main import main
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import create, produce, read
from tests.kafka.ksqldb import needs_ksqldb, start_ksqldb
from tests.kafka.servers import Servers, eventually

SOURCE = "CREATE STREAM S (K STRING KEY, N BIGINT) WITH (KAFKA_TOPIC='{0}s', VALUE_FORMAT='JSON', PARTITIONS=1);"
SUMS = "CREATE TABLE A WITH (KAFKA_TOPIC='{0}a') AS SELECT K, {1}(N) AS N FROM S GROUP BY K;"
KEPT = "CREATE {1}STREAM C WITH (KAFKA_TOPIC='{0}c') AS SELECT K, N FROM S WHERE N > {2};"
ADDED = "CREATE STREAM B WITH (KAFKA_TOPIC='{0}b') AS SELECT K, N FROM S; INSERT INTO B SELECT K, N FROM S WHERE N < 0;"
CHAIN = "CREATE TABLE D WITH (KAFKA_TOPIC='{0}d') AS SELECT K, COUNT(*) AS N FROM B GROUP BY K;"

UNCHANGED, NEW = {"A": "unchanged", "C": "unchanged"}, {"B": "new", "D": "new"}


class Commands:
    """Runs commands over scripts with the options that name what runs."""

    def __init__(self, folder: Path, prefix: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        self.script, self.prefix, self.options, self.capsys = folder / "app.sql", prefix, options, capsys

    def run(self, command: str, *options: str) -> tuple[int, str]:
        code = main([command, str(self.script), *self.options, *options])
        said = self.capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    def plan(self, *options: str) -> tuple[int, Mapping[str, str], str]:
        """The exit code, what would happen by the names of streams and tables, and why something is refused."""
        code = main(["plan", str(self.script), *self.options, "--json", *options])
        found = json.loads(self.capsys.readouterr().out)["queries"]
        actions = {each["name"].split()[2]: each["action"] for each in found if each["name"] != "CREATE STREAM S"}
        return code, actions, " ".join(each["why"] or "" for each in found)

    def write(self, *statements: str) -> None:
        self.script.write_text("\n".join((SOURCE, *statements)).format(self.prefix, "{1}"), encoding="utf-8")


@pytest.mark.spark
def test_a_start_does_what_was_said(
    kafka: KafkaConfig, commands: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix, now = f"p{time.time_ns()}", int(time.time() * 1000)
    options = ["--bootstrap-servers", kafka.servers, "--checkpoint", str(tmp_path / "checkpoint")]
    app = Commands(tmp_path, prefix, options, capsys)
    sums, kept = SUMS.replace("{1}", "COUNT"), KEPT.replace("{1}", "").replace("{2}", "1")

    def values(sink: str) -> list[int]:
        return [json.loads(value or b"")["N"] for _, _, value, _ in read(kafka.servers, f"{prefix}{sink}", 1)]

    def run(*more: str) -> str:
        code, said = app.run("apply", "--until-caught-up", *more)
        assert code == 0, said
        return said

    app.write(sums, kept)
    assert app.plan()[:2] == (2, {"A": "new", "C": "new"})
    topics = admin_client(kafka).list_topics(timeout=60).topics
    assert not {name for name in topics if name.startswith(prefix)}, "a plan creates nothing"
    assert not (tmp_path / "checkpoint" / "manifest.json").exists()
    create(kafka.servers, 1, f"{prefix}s")
    produce(kafka.servers, f"{prefix}s", [("k", json.dumps({"N": n}), now + n) for n in (1, 2, 3)])
    run()
    assert (values("a"), values("c")) == ([1, 2, 3], [2, 3])
    assert app.plan()[:2] == (0, UNCHANGED)

    app.write(sums, KEPT.replace("{1}", "OR REPLACE ").replace("{2}", "2"), ADDED, CHAIN)
    assert app.plan()[:2] == (2, {**UNCHANGED, "C": "changed", **NEW})
    run()
    assert (values("a"), values("c"), values("d")) == ([1, 2, 3], [2, 3], [1, 2, 3])
    assert app.plan()[:2] == (0, {**UNCHANGED, **dict.fromkeys(NEW, "unchanged")})

    app.write(SUMS.replace("{1}", "SUM"), KEPT.replace("{1}", "OR REPLACE ").replace("{2}", "2"))
    gone = dict.fromkeys(NEW, "gone")
    code, actions, why = app.plan()
    assert (code, actions) == (1, {**UNCHANGED, "A": "refused", **gone})
    assert why.strip() == "the query CTAS_A_0 differs from that in the checkpoint"
    code, said = app.run("run", "--until-caught-up")
    assert (code, why.strip() in said) == (1, True), said
    assert app.run("apply", "--until-caught-up")[0] == 1
    assert app.plan("--rebuild")[:2] == (2, {**UNCHANGED, "A": "rebuilt", **gone})
    assert "CSAS_B_2" in run("--rebuild", "--prune")
    assert values("a") == [1, 2, 3, 1, 3, 6], "it has read its topic from the beginning"
    assert app.plan("--prune")[:2] == (0, UNCHANGED)

    admin_client(kafka).delete_records([TopicPartition(f"{prefix}s", 0, 2)])[TopicPartition(f"{prefix}s", 0)].result()
    app.write(SUMS.replace("{1}", "MAX"), kept)
    for code, said in ((app.plan("--rebuild")[::2]), app.run("run", "--until-caught-up", "--rebuild")):
        assert code == 1
        assert "partition 0 of the topic" in said, said
        assert "begins at offset 2" in said


def check_server(app: Commands) -> None:
    """A server does what was said of it."""
    sums = SUMS.replace("{1}", "COUNT")
    app.write(sums, KEPT.replace("{1}", "").replace("{2}", "1"))
    assert app.plan()[:2] == (2, {"A": "new", "C": "new"})
    assert app.run("apply")[0] == 0
    assert app.plan()[:2] == (0, UNCHANGED)

    app.write(sums, KEPT.replace("{1}", "OR REPLACE ").replace("{2}", "2"), ADDED, CHAIN)
    assert app.plan()[:2] == (2, {**UNCHANGED, "C": "changed", **NEW})
    code, said = app.run("apply")
    assert code == 0, said
    assert app.plan()[:2] == (0, {**UNCHANGED, **dict.fromkeys(NEW, "unchanged")})

    # The state of a COUNT is none of a SUM.
    app.write(
        SUMS.replace("{1}", "SUM").replace("CREATE", "CREATE OR REPLACE"),
        KEPT.replace("{1}", "OR REPLACE ").replace("{2}", "2"),
    )
    gone = dict.fromkeys(NEW, "gone")
    code, actions, why = app.plan()
    assert (code, actions) == (1, {**UNCHANGED, "A": "refused", **gone})
    assert "StreamAggregate must have matching" in why
    code, said = app.run("apply")
    assert code == 1, said
    assert app.plan("--rebuild", "--prune")[:2] == (2, {**UNCHANGED, "A": "rebuilt", **gone})
    code, said = app.run("apply", "--rebuild", "--prune")
    assert code == 0, said
    assert app.plan()[:2] == (0, UNCHANGED)


@pytest.mark.spark
def test_a_server_does_what_was_said(
    kafka: KafkaConfig, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        server = servers.here(spark)
        eventually(server.is_up, server)
        check_server(Commands(tmp_path, servers.service, ["--server", server.url], capsys))


@pytest.mark.nightly
def test_ksqldb_does_what_was_said(kafka: KafkaConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_ksqldb()
    service = f"p{time.time_ns()}_"
    with ExitStack() as stack:
        server = start_ksqldb(kafka.servers, service, tmp_path, stack)
        eventually(server.is_up, server)
        check_server(Commands(tmp_path, service, ["--server", server.url], capsys))
