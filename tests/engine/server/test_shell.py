"""`kestrel shell --server`: the prompt against a server."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kestrel_sql.cli.main import main
from kestrel_sql.cli.record_files import Inputs
from kestrel_sql.cli.remote import RemoteServer, column_names
from kestrel_sql.cli.render import Display
from kestrel_sql.cli.texts import run_text
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.server.open import Running
from tests.engine.server.test_queries import eventually


def run(server: RemoteServer, text: str) -> tuple[bool, str]:
    out = io.StringIO()
    console = Console(file=out, width=200)
    return server.run_text(text, Display(console, console)), out.getvalue()


def test_statements_their_answers_and_refusals(idle: Running) -> None:
    server = RemoteServer(idle.url)
    assert "default_ at" in server.version()
    done, said = run(
        server,
        "DEFINE t = 'rides'; CREATE STREAM rides (id INT KEY, fare DOUBLE) WITH (KAFKA_TOPIC='${t}',"
        " VALUE_FORMAT='JSON', PARTITIONS=1); SHOW STREAMS; DESCRIBE rides;",
    )
    assert (done, server.sequence >= 0) == (True, True)
    assert all(each in said for each in ("Stream created", "RIDES", "rides", "FARE", "DOUBLE"))
    done, said = run(server, "DROP STREAM nothing;")
    assert (done, "NOTHING" in said) == (False, True)
    done, said = run(server, "CREATE STREAM ;")
    assert (done, "^" in said) == (False, True)
    assert run(server, "SET 'no.such.property' = '1';")[0] is False
    assert run(server, "SET 'auto.offset.reset' = 'latest';") == (True, "")
    assert server.properties["auto.offset.reset"] == "latest"


def test_a_server_is_shown_as_an_engine_in_memory_is(idle: Running) -> None:
    text = (
        "CREATE STREAM walks (id INT KEY, far DECIMAL(6, 2), way ARRAY<STRUCT<x MAP<STRING, INT>>>) WITH"
        " (KAFKA_TOPIC='walks', VALUE_FORMAT='JSON', PARTITIONS=3); DESCRIBE walks; DESCRIBE FUNCTION lpad;"
        " ASSERT TOPIC walks; EXPLAIN SELECT far + 1 AS more FROM walks WHERE id > 2 EMIT CHANGES; SHOW FUNCTIONS;"
        " CREATE STREAM IF NOT EXISTS walks (id INT KEY) WITH (KAFKA_TOPIC='walks', VALUE_FORMAT='JSON');"
    )
    out = io.StringIO()
    console = Console(file=out, width=200)
    engine = MemoryEngine(topics=TopicRule.BROKER)
    assert run_text(engine, text, Display(console, console), Inputs({}), BadRecords(lambda _: None))
    done, said = run(RemoteServer(idle.url), text)
    assert (done, said.splitlines()) == (True, out.getvalue().splitlines())


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "--server", "http://127.0.0.1:9", "--execute", "SHOW STREAMS;"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert main(["shell", "--server", "ftp://x", "--execute", "SHOW STREAMS;"]) == 1


@pytest.mark.spark
def test_queries_and_prints(server: Running) -> None:
    shell = RemoteServer(server.url)
    run(
        shell,
        "CREATE STREAM hops (id INT KEY, n INT) WITH (KAFKA_TOPIC='hops', VALUE_FORMAT='JSON', PARTITIONS=1);"
        "CREATE TABLE sums AS SELECT id, SUM(n) AS total FROM hops GROUP BY id;"
        "\n\nINSERT INTO hops SELECT * FROM hops WHERE id < 0;"
        "INSERT INTO hops (id, n) VALUES (1, 5); INSERT INTO hops (id, n) VALUES (1, 7);",
    )
    eventually(lambda: "12" in run(shell, "SELECT * FROM sums WHERE id = 1;")[1])
    assert [query.line for query in server.service.figures().queries] == [1, 3]
    done, said = run(shell, "SELECT id, n AS `a,b` FROM hops EMIT CHANGES LIMIT 2; PRINT hops FROM BEGINNING LIMIT 1;")
    assert done
    assert said.splitlines()[:4] == ["ID | a,b", "1 | 5", "1 | 7", "Limit Reached"]
    assert "Value format: JSON" in said


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("", []),
        ("`ID` INTEGER KEY, `S` STRUCT<`A` INTEGER, `B` ARRAY<STRING>>, `D` DECIMAL(4, 2)", ["ID", "S", "D"]),
        ("`a``b` STRING, `c, d` BIGINT", ["a`b", "c, d"]),
    ],
)
def test_the_names_of_columns_in_a_schema(schema: str, names: list[str]) -> None:
    assert column_names(schema) == names
