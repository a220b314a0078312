"""Formats of sinks and internal topics."""

from __future__ import annotations

import pytest

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import StatementError
from kestrel_sql.formats.table import FORMATS
from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.properties.serdes import internal_formats, key_schema_name, sink_formats, validate_formats
from kestrel_sql.planner.properties.with_clause import SinkProperties, sink_properties
from kestrel_sql.sql.nodes.statements import Properties, SourceKind
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import BOOLEAN, INTEGER, STRING, Array, Decimal, Map

UNWRAP = frozenset({SerdeFeature.UNWRAP_SINGLES})
K, L, V = Column("K", INTEGER, Role.KEY), Column("L", INTEGER, Role.KEY), Column("V", STRING)


def source(key: FormatInfo, value: FormatInfo) -> Source:
    return Source(name="S", kind=SourceKind.STREAM, schema=Schema((K, V)), topic="s", formats=Formats(key, value))


def sink(with_clause: Properties, leftmost: Source, *columns: Column, null: bool = False) -> Formats:
    properties: SinkProperties = sink_properties(with_clause)
    return sink_formats(
        properties, leftmost, Schema(columns or (K, V)), Config(), sink="OUT_1", partitioned_by_null=null
    )


JSON_SOURCE = source(FormatInfo("KAFKA"), FormatInfo("JSON"))


def test_formats_come_from_the_leftmost_source() -> None:
    delimited = source(
        FormatInfo("DELIMITED", (("delimiter", "|"),)), FormatInfo("AVRO", (("fullSchemaName", "a"), ("schemaId", "3")))
    )
    formats = sink((), delimited)
    assert formats.key_format == FormatInfo("DELIMITED", (("delimiter", "|"),))
    assert formats.value_format == FormatInfo("AVRO")


def test_only_an_equal_format_inherits_properties() -> None:
    delimited = source(FormatInfo("DELIMITED", (("delimiter", "|"),)), FormatInfo("DELIMITED", (("delimiter", "|"),)))
    formats = sink((("KEY_FORMAT", "delimited"), ("VALUE_FORMAT", "json")), delimited)
    assert (formats.key_format.property("delimiter"), formats.value_format.properties) == ("|", ())
    assert sink((("VALUE_DELIMITER", ";"),), delimited).value_format.property("delimiter") == ";"


def test_avro_keys_are_named_after_the_sink() -> None:
    formats = sink((("KEY_FORMAT", "AVRO"),), JSON_SOURCE)
    assert (
        formats.key_format.property("fullSchemaName")
        == key_schema_name("OUT_1")
        == "io.confluent.ksql.avro_schemas.Out1Key"
    )
    assert formats.key_features == UNWRAP


def test_protobuf_unwraps_primitives() -> None:
    assert sink((("FORMAT", "PROTOBUF"),), JSON_SOURCE).key_format.property("unwrapPrimitives") == "true"


def test_a_key_takes_the_default_format_if_it_inherits_none() -> None:
    keyless = source(FormatInfo("NONE"), FormatInfo("JSON"))
    assert sink((), keyless).key_format.format == "KAFKA"
    assert sink((), keyless, V).key_format.format == "NONE"
    with pytest.raises(StatementError, match="The 'NONE' format can only be used"):
        sink((("KEY_FORMAT", "NONE"),), JSON_SOURCE)


def test_partition_by_null_leaves_no_key() -> None:
    assert sink((), JSON_SOURCE, V, null=True).key_format == FormatInfo("NONE")
    with pytest.raises(StatementError, match="Key format specified for stream without key columns"):
        sink((("KEY_FORMAT", "JSON"),), JSON_SOURCE, V, null=True)


@pytest.mark.parametrize(
    ("with_clause", "columns", "gist"),
    [
        (
            (("WRAP_SINGLE_VALUE", True),),
            (K, V, Column("W", STRING)),
            "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas",
        ),
        (
            (("WRAP_SINGLE_VALUE", True), ("VALUE_FORMAT", "DELIMITED")),
            (K, V),
            "Format 'DELIMITED' does not support 'WRAP_SINGLE_VALUE'",
        ),
        ((("WRAP_SINGLE_VALUE", False), ("VALUE_FORMAT", "PROTOBUF")), (K, V), "set to 'false'."),
        ((("VALUE_SCHEMA_FULL_NAME", "x"),), (K, V), "JSON does not support the following configs: [fullSchemaName]"),
        ((("VALUE_SCHEMA_FULL_NAME", " "), ("VALUE_FORMAT", "AVRO")), (K, V), "fullSchemaName cannot be empty"),
        (
            (("VALUE_SCHEMA_ID", 1),),
            (K, V),
            "VALUE_FORMAT should support schema inference when VALUE_SCHEMA_ID is provided",
        ),
    ],
)
def test_refused_properties(with_clause: Properties, columns: tuple[Column, ...], gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        sink(with_clause, JSON_SOURCE, *columns)
    assert gist in caught.value.message


def test_the_message_for_a_schema_that_a_format_cannot_hold() -> None:
    with pytest.raises(StatementError) as caught:
        sink((), JSON_SOURCE, K, L, V)
    assert caught.value.message == (
        "Key format does not support schema.\nformat: KAFKA\n"
        "schema: Persistence{columns=[`K` INTEGER KEY, `L` INTEGER KEY], features=[]}\n"
        "reason: The 'KAFKA' format only supports a single field. Got: [`K` INTEGER KEY, `L` INTEGER KEY]"
    )


@pytest.mark.rules("N11.4", "N11.6")
@pytest.mark.parametrize(
    ("name", "column", "gist"),
    [
        ("KAFKA", Column("V", BOOLEAN), "The 'KAFKA' format does not support type 'BOOLEAN'"),
        ("DELIMITED", Column("V", Array(STRING)), "The 'DELIMITED' format does not support type 'ARRAY', column: `V`"),
        ("JSON", Column("V", Array(Map(INTEGER, STRING))), "JSON only supports MAP types with STRING keys"),
        ("AVRO", Column("V", Map(INTEGER, STRING)), "Avro only supports MAPs with STRING keys"),
        ("AVRO", Column("1V", STRING), "Schema is not compatible with Avro: Illegal initial character: 1V"),
        (
            "PROTOBUF_NOSR",
            Column("V", Map(INTEGER, STRING)),
            "PROTOBUF format only supports MAP types with STRING keys",
        ),
        ("NONE", Column("V", STRING), "Got: [`V` STRING]"),
    ],
)
def test_types_that_a_format_cannot_hold(name: str, column: Column, gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        validate_formats(Formats(FormatInfo("NONE"), FormatInfo(name)), Schema((column,)))
    assert gist in caught.value.message


def test_inherited_properties_are_properties_of_the_format() -> None:
    for facts in FORMATS.values():
        assert facts.inheritable <= facts.properties


@pytest.mark.rules("F9.1")
@pytest.mark.parametrize(
    ("name", "key", "expected", "features"),
    [
        ("KAFKA", (K,), "KAFKA", frozenset()),
        ("KAFKA", (K, L), "JSON", frozenset()),
        ("KAFKA", (Column("K", BOOLEAN, Role.KEY),), "JSON", UNWRAP),
        ("DELIMITED", (K, L), "DELIMITED", frozenset()),
        ("DELIMITED", (Column("K", Decimal(4, 2), Role.KEY),), "JSON", UNWRAP),
        ("NONE", (K,), "JSON", UNWRAP),
        ("JSON", (K, L), "JSON", frozenset()),
        ("AVRO", (K,), "AVRO", UNWRAP),
        ("PROTOBUF", (K,), "PROTOBUF", frozenset()),
    ],
)
def test_internal_key_formats(
    name: str, key: tuple[Column, ...], expected: str, features: frozenset[SerdeFeature]
) -> None:
    source = Formats(FormatInfo(name), FormatInfo("AVRO", (("fullSchemaName", "a"), ("schemaId", "1"))), UNWRAP, UNWRAP)
    formats = internal_formats(source, key)
    assert (formats.key_format.format, formats.key_features) == (expected, features)
    assert (formats.value_format, formats.value_features) == (
        FormatInfo("AVRO", (("fullSchemaName", "a"),)),
        frozenset(),
    )
    assert internal_formats(source, key, rekeyed=False).key_format.format == name
