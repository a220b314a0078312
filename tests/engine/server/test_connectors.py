"""Statements about connectors: what ksqlDB's server 8.1.5 answered with the same worker behind it, and without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.main import main
from tests.engine.server.connect_worker import PLUGIN, Worker, connect_worker
from tests.engine.server.servers import ksql, sparkless_server

CREATE = f"CREATE SOURCE CONNECTOR c WITH ('connector.class'='{PLUGIN}', 'Topic'='t', 'tasks.max'=1, wide=true);"


@pytest.fixture
def worker() -> Iterator[Worker]:
    with connect_worker() as running:
        yield running


def answers(url: str, text: str) -> list[dict[str, Any]]:
    answer = ksql(url, text)
    assert answer.status_code == 200, answer.text
    return [{name: value for name, value in each.items() if name != "statementText"} for each in answer.json()]


def refusal(url: str, text: str) -> tuple[int, int, str]:
    answer = ksql(url, text)
    error = answer.json()
    return answer.status_code, error["error_code"], error["message"]


@pytest.mark.rules("R16.1", "R16.2")
def test_connectors_are_made_and_shown_and_dropped(worker: Worker) -> None:
    with sparkless_server(config={"ksql.connect.url": worker.url}) as running:
        settings = {"connector.class": PLUGIN, "Topic": "t", "tasks.max": "1", "WIDE": "true", "name": "C"}
        info = {"name": "C", "config": settings, "tasks": [], "type": "source"}
        assert answers(running.url, CREATE) == [{"@type": "connector_info", "info": info, "warnings": []}]
        assert worker.connectors == {"C": settings}
        assert answers(running.url, CREATE.replace("CONNECTOR c", "CONNECTOR IF NOT EXISTS c")) == [
            {"@type": "warning_entity", "message": "Connector C already exists", "warnings": []}
        ]
        listed = {"name": "C", "type": "source", "className": PLUGIN, "state": "WARNING (1/2 tasks RUNNING)"}
        assert answers(running.url, "SHOW CONNECTORS; LIST SINK CONNECTORS; SHOW CONNECTOR PLUGINS;") == [
            {"@type": "connector_list", "warnings": [], "connectors": [listed]},
            {"@type": "connector_list", "warnings": [], "connectors": []},
            {
                "@type": "connector_plugins_list",
                "warnings": [],
                "connectorsPlugins": [{"className": PLUGIN, "type": "source", "version": "1"}],
            },
        ]
        (described,) = answers(running.url, "DESCRIBE CONNECTOR c;")
        assert (described["@type"], described["connectorClass"]) == ("connector_description", PLUGIN)
        assert described["status"]["connector"] == {"state": "RUNNING"}
        assert answers(running.url, "DROP CONNECTOR c; DROP CONNECTOR IF EXISTS c;") == [
            {"@type": "drop_connector", "connectorName": "C", "warnings": []},
            {"@type": "warning_entity", "message": "Connector 'C' does not exist.", "warnings": []},
        ]


@pytest.mark.rules("R16.2")
def test_what_kafka_connect_refuses(worker: Worker) -> None:
    missing = '{"error_code": 404, "message": "Connector C not found"}'
    with sparkless_server(config={"ksql.connect.url": worker.url}) as running:
        assert refusal(running.url, "DROP CONNECTOR c;") == (404, 40400, f"Failed to drop connector: {missing}")
        assert refusal(running.url, "DESCRIBE CONNECTOR c;") == (
            404,
            40400,
            f"Failed to query connector status: {missing}",
        )
        assert refusal(running.url, "CREATE SOURCE CONNECTOR c WITH ('a'='b');") == (
            400,
            40000,
            "Validation error: Connector config {a=b, name=C} contains no connector type",
        )
        status, code, said = refusal(running.url, "CREATE SOURCE CONNECTOR c WITH ('connector.class'='no');")
        assert (status, code, "Failed to find any class" in said) == (400, 40000, True)
        assert "Cannot override" in refusal(running.url, f"SET 'ksql.connect.url'='{worker.url}';")[2]


@pytest.mark.rules("R16.1")
def test_the_text_of_an_answer_has_no_secret(worker: Worker) -> None:
    with sparkless_server(config={"ksql.connect.url": worker.url}) as running:
        text = ksql(running.url, CREATE).json()[0]["statementText"]
    assert text == (
        f"CREATE SOURCE CONNECTOR c WITH ('connector.class'='{PLUGIN}', 'Topic'='[string]', 'tasks.max'='[string]',"
        " wide='[string]');"
    )


def test_a_worker_may_want_a_user(worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("username=me\npassword=pass=word\n")
    config = {"ksql.connect.url": worker.url, "ksql.connect.basic.auth.credentials.file": str(file)}
    with sparkless_server(config=config) as running:
        answers(running.url, "SHOW CONNECTORS;")
    assert {*worker.users} == {"Basic bWU6cGFzcz13b3Jk"}


@pytest.mark.rules("R16.3")
@pytest.mark.parametrize("config", [{}, {"ksql.connect.url": "http://127.0.0.1:9"}])
def test_neither_a_list_nor_if_exists_ends_a_migration(config: dict[str, str]) -> None:
    with sparkless_server(config=config) as running:
        listed, dropped = answers(running.url, "SHOW CONNECTORS; DROP CONNECTOR IF EXISTS c;")
        assert (listed["connectors"], bool(listed["warnings"][0]["message"])) == ([], True)
        assert dropped["@type"] == "warning_entity"
        assert refusal(running.url, CREATE)[0] in (400, 500)


@pytest.mark.rules("R16.3")
def test_connectors_are_passed_over_with_a_warning_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "app.ksql"
    script.write_text(f"{CREATE} DESCRIBE CONNECTOR c; DROP CONNECTOR c;")
    for command in (["run", str(script)], ["shell", "--file", str(script)]):
        assert main(command) == ExitCode.REFUSED
        assert "--skip-connectors" in capsys.readouterr().err
        assert main([*command, "--skip-connectors"]) == ExitCode.OK
        said = capsys.readouterr()
        assert (said.out + said.err).count("is passed over") == 3
    with sparkless_server(config={"kestrel.connectors.skip": "true"}) as running:
        assert [each["@type"] for each in answers(running.url, CREATE)] == ["warning_entity"]
