"""Plans of CREATE SOURCE … FROM KAFKA: the examples of `docs/create-source.md`, and the inherited formats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.plan.commands import CreateKafkaSourceV1
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query

MANUAL = Path(__file__).parents[3] / "docs" / "create-source.md"


def command(text: str) -> CreateKafkaSourceV1:
    session = Session()
    (parsed,) = session.parse(text)
    plan = session.execute(parsed).plan
    assert plan is not None
    assert isinstance(plan.ddl_command, CreateKafkaSourceV1)
    return plan.ddl_command


def test_every_example_of_the_manual_is_planned() -> None:
    blocks = re.findall(r"```sql\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)
    session = Session()
    planned = [
        session.execute(parsed)
        for block in blocks
        for parsed in session.parse(block)
        if not isinstance(parsed.statement, Query)
    ]
    assert len(planned) == 4


@pytest.mark.parametrize(
    ("formats", "key", "value"),
    [
        ("FORMAT TEXT", "NONE", "JSON"),
        ("KEY FORMAT TEXT VALUE FORMAT TEXT INCLUDE KEY", "KAFKA", "JSON"),
        ("KEY FORMAT BYTES VALUE FORMAT CSV WITH 2 COLUMNS INCLUDE KEY", "KAFKA", "JSON"),
        ("KEY FORMAT CSV WITH 2 COLUMNS VALUE FORMAT TEXT INCLUDE KEY", "JSON", "JSON"),
        ("KEY FORMAT CSV WITH 2 COLUMNS VALUE FORMAT TEXT INCLUDE KEY AS k", "JSON", "JSON"),
        ("KEY FORMAT JSON VALUE FORMAT REGEX '(a)' ENVELOPE UPSERT", "KAFKA", "JSON"),
        (
            """FORMAT AVRO USING SCHEMA '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'""",
            "NONE",
            "AVRO",
        ),
        ("FORMAT PROTOBUF USING SCHEMA 'syntax = \"proto3\"; message M { int32 a = 1; }'", "NONE", "PROTOBUF"),
    ],
)
def test_the_formats_that_queries_inherit(formats: str, key: str, value: str) -> None:
    formats_of_source = command(f"CREATE SOURCE s FROM KAFKA (TOPIC 't') {formats};").formats
    assert (formats_of_source.key_format.format, formats_of_source.value_format.format) == (key, value)


def test_create_source_registers_no_schemas() -> None:
    session = Session()
    schema = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
    (parsed,) = session.parse(f"CREATE SOURCE s FROM KAFKA (TOPIC 't') FORMAT AVRO USING SCHEMA '{schema}';")
    session.execute(parsed)
    assert not list(session.registry.subjects())


def test_a_refused_statement_changes_nothing_and_has_a_hint() -> None:
    session = Session()
    text = "CREATE SOURCE s FROM KAFKA (TOPIC 't') FORMAT JSON INCLUDE KEY, OFFSET;"
    (parsed,) = session.parse(text)
    with pytest.raises(EngineError) as caught:
        session.execute(parsed)
    assert "KEY FORMAT TEXT VALUE FORMAT JSON" in caught.value.render(text)
    assert caught.value.span is not None
    assert caught.value.span.column == text.index("KEY") + 1
    assert not session.catalog.sources
