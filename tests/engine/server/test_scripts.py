"""The scripts of `kestrel serve --file`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kestrel_sql.admin.answer import Entity
from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.server.serving.scripts import ServedScript
from kestrel_sql.session.session import Session
from kestrel_sql.sql.parse.parser import ParsedStatement
from tests.engine.server.servers import ksql, sparkless_server

CREATE = "CREATE STREAM s (a INT KEY, n INT) WITH (KAFKA_TOPIC='${t}', VALUE_FORMAT='JSON', PARTITIONS=1);"


@pytest.mark.rules("R15.8")
def test_a_statement_runs_unless_an_earlier_start_carried_it_out() -> None:
    done: list[str] = []
    settings: list[Mapping[str, object]] = []

    def carry_out(parsed: ParsedStatement, number: int, given: Mapping[str, object], _: object) -> Sequence[Entity]:
        settings.append(dict(given))
        if done.count(parsed.text) >= number:
            return []
        done.append(parsed.text)
        return [{"@type": "x"}]

    insert = "INSERT INTO s (n) VALUES (1);"
    for expected in (3, 0):
        script = ServedScript(carry_out, Session(variables={"t": "x"}))
        assert (
            len(script.run(f"{insert} SET 'auto.offset.reset'='latest'; {insert}"))
            + len(script.run(f"DEFINE n = '2'; {insert.replace('1', '${n}')}"))
            == expected
        )
    assert [text for text in done if "2" in text] == ["INSERT INTO s (n) VALUES (2);"]
    assert settings[:3] == [{}, {"auto.offset.reset": "latest"}, {"auto.offset.reset": "latest"}]


@pytest.mark.rules("R15.8")
def test_scripts_of_a_server() -> None:
    with sparkless_server() as running:
        script = ServedScript(running.service.carry_out, Session(variables={"t": "events"}))
        (created,) = script.run(CREATE)
        assert created["commandStatus"]["message"] == "Stream created"
        sources: list[dict[str, Any]] = ksql(running.url, "SHOW STREAMS;").json()[0]["streams"]
        assert [each["topic"] for each in sources if each["name"] == "S"] == ["events"]
        with pytest.raises(StatementError, match="its answer goes nowhere"):
            script.run("SELECT * FROM s EMIT CHANGES;")
        with pytest.raises(StatementError, match="already exists"):
            script.run(CREATE)
        with pytest.raises(EngineError, match="NOTHING"):
            script.run("DESCRIBE nothing;")
