"""Columns from a schema registry, and schemas into it."""

from __future__ import annotations

import pytest

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import StatementError
from kestrel_sql.formats.registry.memory import MemoryRegistry, SchemaFormat
from kestrel_sql.plan.step import FormatInfo, Formats
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.ddl.inference import check_sink_schemas, name_sink_schemas, registrations
from kestrel_sql.planner.ddl.statements import CreateCommand, plan_create_source
from kestrel_sql.planner.properties.with_clause import sink_properties
from kestrel_sql.sql.nodes.statements import CreateSource, Element, ElementRole, Properties, SourceKind
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import BYTES, INTEGER, STRING

RECORD = '{"type": "record", "name": "pair", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}'
MESSAGE = 'syntax = "proto3"; message pair { int32 a = 1; int32 b = 2; }'


def registered() -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.register("t-key", SchemaFormat.AVRO, '"int"', schema_id=1)
    registry.register("t-value", SchemaFormat.AVRO, RECORD, schema_id=2)
    registry.register("t-wide", SchemaFormat.PROTOBUF, MESSAGE, schema_id=3)
    return registry


def plan(*elements: Element, kind: SourceKind = SourceKind.STREAM, more: Properties = ()) -> CreateCommand:
    statement = CreateSource(kind, "S", elements, (("KAFKA_TOPIC", "t"), *more))
    command = plan_create_source(statement, Catalog(), Config(), registered())
    assert command is not None
    return command


BOTH: Properties = (("FORMAT", "AVRO"),)


def test_key_and_value_are_inferred() -> None:
    assert str(plan(more=BOTH).schema) == "`ROWKEY` INTEGER KEY, `A` INTEGER, `B` INTEGER"
    assert str(plan(kind=SourceKind.TABLE, more=BOTH).schema.key[0]) == "`ROWKEY` INTEGER KEY"


def test_only_what_the_statement_does_not_define_is_inferred() -> None:
    assert str(plan(Element("V", STRING), more=BOTH).schema) == "`ROWKEY` INTEGER KEY, `V` STRING"
    key = Element("K", STRING, ElementRole.KEY)
    assert str(plan(key, more=(("VALUE_FORMAT", "AVRO"),)).schema) == "`K` STRING KEY, `A` INTEGER, `B` INTEGER"


def test_header_columns_do_not_define_the_value() -> None:
    schema = plan(Element("H", BYTES, ElementRole.HEADER, "h"), more=(("VALUE_FORMAT", "AVRO"),)).schema
    assert [column.name for column in schema.columns] == ["H", "A", "B"]


def test_ids_keep_case_and_name_the_schema() -> None:
    command = plan(more=(*BOTH, ("KEY_SCHEMA_ID", 1), ("VALUE_SCHEMA_ID", 2)))
    assert [column.name for column in command.schema.value] == ["a", "b"]
    assert command.formats.value_format.properties == (("fullSchemaName", "pair"), ("schemaId", "2"))
    assert command.formats.key_format.property("fullSchemaName") == "io.confluent.ksql.avro_schemas.SKey"


def test_wrap_single_value_false_unwraps_the_value() -> None:
    command = plan(more=(("VALUE_FORMAT", "AVRO"), ("WRAP_SINGLE_VALUE", False)))
    assert str(command.schema.value[0]) == "`ROWVAL` STRUCT<`A` INTEGER, `B` INTEGER>"


@pytest.mark.rules("F8.8", "F8.9")
@pytest.mark.parametrize(
    ("elements", "more", "gist"),
    [
        (
            (),
            (("VALUE_FORMAT", "JSON_SR"),),
            "Value schema is not in the expected format. You may want to set VALUE_FORMAT to 'AVRO'.",
        ),
        (
            (),
            (("VALUE_FORMAT", "AVRO"), ("VALUE_SCHEMA_ID", 9)),
            "Schema for message values on topic 't' does not exist",
        ),
        (
            (),
            (("VALUE_FORMAT", "PROTOBUF"), ("VALUE_SCHEMA_ID", 3), ("VALUE_SCHEMA_FULL_NAME", "missing")),
            "Schema for message values on topic 't' does not exist",
        ),
        (
            (Element("V", STRING),),
            (("VALUE_FORMAT", "AVRO"), ("VALUE_SCHEMA_ID", 2)),
            "Table elements and VALUE_SCHEMA_ID cannot both",
        ),
        ((), (("KEY_FORMAT", "KAFKA"), ("VALUE_FORMAT", "AVRO"), ("KEY_SCHEMA_ID", 1)), "Current format is KAFKA."),
        ((), (("KEY_FORMAT", "PROTOBUF"), ("VALUE_FORMAT", "AVRO"), ("KEY_SCHEMA_ID", 3)), "contains multiple columns"),
    ],
)
def test_columns_and_schema_ids_that_the_registry_cannot_serve(
    elements: tuple[Element, ...], more: Properties, gist: str
) -> None:
    with pytest.raises(StatementError) as caught:
        plan(*elements, more=more)
    assert gist in caught.value.message


SOURCE = Source(
    name="S",
    kind=SourceKind.STREAM,
    schema=Schema((Column("a", INTEGER),)),
    topic="s",
    formats=Formats(FormatInfo("KAFKA"), FormatInfo("AVRO")),
)


def test_a_sink_takes_the_name_of_its_schema() -> None:
    named = name_sink_schemas(sink_properties((("VALUE_SCHEMA_ID", 2),)), SOURCE, registered())
    assert named.value.properties == (("fullSchemaName", "pair"), ("schemaId", "2"))
    assert name_sink_schemas(sink_properties(()), SOURCE, registered()) == sink_properties(())


def test_a_sink_has_the_columns_of_its_schema_in_order() -> None:
    properties = sink_properties((("VALUE_SCHEMA_ID", 2),))
    check_sink_schemas(properties, SOURCE, SOURCE.schema, registered())
    with pytest.raises(StatementError) as caught:
        check_sink_schemas(properties, SOURCE, Schema((Column("b", INTEGER),)), registered())
    assert caught.value.message == (
        "The following value columns are changed, missing or reordered: [`b` INTEGER]. "
        "Schema from schema registry is [`a` INTEGER, `b` INTEGER]"
    )


@pytest.mark.rules("F8.13")
def test_the_schemas_that_a_statement_registers() -> None:
    formats = Formats(FormatInfo("AVRO"), FormatInfo("JSON_SR", (("schemaId", "4"),)))
    schema = Schema((Column("K", STRING, Role.KEY), Column("V", STRING)))
    key, value = registrations("t", formats, schema, sink=False)
    assert (key.subject, key.schema_id, key.only_if_absent) == ("t-key", None, True)
    assert (value.subject, value.schema_id, value.only_if_absent) == ("t-value", 4, False)
    assert not registrations("t", formats, schema, sink=True)[0].only_if_absent
    assert registrations("t", Formats(FormatInfo("KAFKA"), FormatInfo("JSON")), schema, sink=True) == ()
