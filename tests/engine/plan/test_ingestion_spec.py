from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.errors import PlanError
from kestrel_sql.plan.codec.plan_file import decode_statement, encode_statement
from kestrel_sql.plan.commands import CreateKafkaSourceV1
from kestrel_sql.plan.ingestion import Envelope, IngestionSpec
from kestrel_sql.plan.step import FormatInfo, Formats
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.sql.parse.parser import parse_schema
from kestrel_sql.types.schema import Schema
from tests.engine.plan import plan_samples as sample

FORMATS = Formats(FormatInfo("TEXT"), FormatInfo("TEXT"))


def command(schema: str = sample.KAFKA_SCHEMA, **more: Any) -> dict[str, Any]:
    document = {
        "@type": "createKafkaSourceV1",
        "sourceName": "S",
        "schema": schema,
        "topicName": "t",
        "formats": sample.formats(),
    }
    return sample.ddl({**document, "intake": sample.ingestion(**more)})


def ingestion(envelope: Envelope, schema: Schema, *, key_record: bool = False) -> IngestionSpec:
    return IngestionSpec(
        envelope=envelope,
        formats=FORMATS,
        message_schema=schema,
        key_record=key_record,
        inline_errors=False,
        metadata=(),
        start_offsets=(),
    )


@pytest.mark.rules("P2.4")
def test_a_command_is_read_and_written() -> None:
    plan = decode_statement(command())
    assert encode_statement(plan) == command()
    create = plan.ddl_command
    assert isinstance(create, CreateKafkaSourceV1)
    assert create.kind is SourceKind.TABLE
    assert create.ingestion.start_offsets == (0, 2**40)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (command(inlineErrors=False), r"schema"),
        (command("`KEY` STRING KEY, `DATA` STRING"), r"schema"),
        (command(messageSchema="`KEY` BIGINT KEY, `DATA` STRING"), r"schema"),
        (command(envelope="DEBEZIUM", inlineErrors=False), r"messageSchema"),
        (command(envelope="NONE"), r"inlineErrors"),
        (command(messageSchema="`DATA` STRING"), r"messageSchema"),
        (command(metadata=[{"item": "HEADER_TEXT", "headerKey": None}]), r"headerKey"),
        (command(metadata=[{"item": "OFFSET", "headerKey": "x"}]), r"headerKey"),
        (command(metadata=[{"item": "AGE", "headerKey": None}]), r"item"),
        (command(envelope="CDC"), r"envelope"),
        (command(startOffsets=[-1]), r"startOffsets\[0\]"),
        (command(colour="red"), r"colour"),
    ],
)
def test_an_ingestion_spec_that_does_not_fit_is_refused_with_its_path(document: dict[str, Any], path: str) -> None:
    with pytest.raises(PlanError, match=path):
        decode_statement(document)


def test_a_key_record_is_one_column() -> None:
    schema = parse_schema("A STRING KEY, B BIGINT KEY, V STRING")
    flat, record = ingestion(Envelope.NONE, schema), ingestion(Envelope.NONE, schema, key_record=True)
    assert [str(t) for t in flat.key_types()] == ["STRING", "BIGINT"]
    assert [str(t) for t in record.key_types()] == ["STRUCT<`A` STRING, `B` BIGINT>"]


def test_under_debezium_the_value_columns_are_the_fields_of_the_after_image_without_the_key() -> None:
    schema = parse_schema("ID BIGINT KEY, AFTER STRUCT<NAME STRING, ID BIGINT, AGE INT>")
    spec = ingestion(Envelope.DEBEZIUM, schema)
    assert [column.name for column in spec.value_columns()] == ["NAME", "AGE"]
