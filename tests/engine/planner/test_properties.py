"""WITH clauses: the properties that each statement accepts, and their values."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kestrel_sql.errors import StatementError
from kestrel_sql.plan.step import WindowInfo, WindowType
from kestrel_sql.planner.properties.with_clause import (
    TimestampProperty,
    insert_query_id,
    sink_properties,
    source_properties,
)
from kestrel_sql.sql.nodes.statements import Properties

TOPIC: Properties = (("KAFKA_TOPIC", "t"),)


def test_all_properties_of_a_source() -> None:
    properties = source_properties(
        (
            *TOPIC,
            ("PARTITIONS", "4"),
            ("REPLICAS", Decimal(2)),
            ("RETENTION_MS", 2**40),
            ("KEY_FORMAT", "delimited"),
            ("KEY_DELIMITER", "TAB"),
            ("VALUE_FORMAT", "Protobuf"),
            ("VALUE_SCHEMA_ID", 7),
            ("VALUE_SCHEMA_FULL_NAME", "a.B"),
            ("VALUE_PROTOBUF_NULLABLE_REPRESENTATION", "wrapper"),
            ("WRAP_SINGLE_VALUE", "TRUE"),
            ("TIMESTAMP", "`ts`"),
            ("TIMESTAMP_FORMAT", "yyyy-MM-dd'T'HH"),
            ("WINDOW_TYPE", "Hopping"),
            ("WINDOW_SIZE", "1 day"),
        )
    )
    assert (properties.topic.partitions, properties.topic.replicas, properties.topic.retention_ms) == (4, 2, 2**40)
    assert (properties.key.format, properties.key.properties) == ("DELIMITED", (("delimiter", "TAB"),))
    assert properties.value.format == "PROTOBUF"
    assert properties.value.properties == (
        ("fullSchemaName", "a.B"),
        ("nullableRepresentation", "wrapper"),
        ("schemaId", "7"),
    )
    assert properties.value.schema_id == 7
    assert properties.wrap_single_value is True
    assert properties.timestamp == TimestampProperty(column="ts", format="yyyy-MM-dd'T'HH")
    assert properties.window == WindowInfo(WindowType.HOPPING, 86_400_000)


@pytest.mark.parametrize(
    ("properties", "gist"),
    [
        ((("FOO", 1), ("BAR", 2)), "Invalid config variable(s) in the WITH clause: FOO,BAR"),
        ((("PARTITIONS", "x"),), "Invalid value x for configuration PARTITIONS"),
        ((("REPLICAS", 40000),), "Invalid value 40000 for configuration REPLICAS"),
        ((("WRAP_SINGLE_VALUE", "perhaps"),), "Invalid value perhaps for configuration WRAP_SINGLE_VALUE"),
        ((("KAFKA_TOPIC", " "),), "Configuration KAFKA_TOPIC is invalid"),
        ((("CLEANUP_POLICY", "compact"),), "CLEANUP_POLICY"),
        ((("FORMAT", "JSON"), ("VALUE_FORMAT", "JSON")), "Cannot supply both 'VALUE_FORMAT' and 'FORMAT' properties"),
        ((("KEY_FORMAT", "FOO"),), "Unknown format: FOO"),
        ((("VALUE_DELIMITER", ""),), "Configuration VALUE_DELIMITER is invalid: Delimiter cannot be empty"),
        (
            (("KEY_DELIMITER", "<~>"),),
            "Invalid delimiter value: '<~>'. Delimiter must be a single character or TAB,SPACE",
        ),
        (
            (("VALUE_AVRO_SCHEMA_FULL_NAME", "a"), ("VALUE_SCHEMA_FULL_NAME", "b")),
            "Cannot supply both 'VALUE_AVRO_SCHEMA_FULL_NAME'",
        ),
        ((("KEY_PROTOBUF_NULLABLE_REPRESENTATION", "MAYBE"),), "Invalid value MAYBE"),
        ((("TIMESTAMP_FORMAT", "yyyy-QQQ bad"),), "Unknown pattern letter: b"),
        ((("TIMESTAMP_FORMAT", "'open"),), "Configuration TIMESTAMP_FORMAT is invalid: Invalid datetime format"),
    ],
)
def test_properties_that_sources_and_sinks_refuse(properties: Properties, gist: str) -> None:
    for read in (sink_properties, source_properties):
        with pytest.raises(StatementError) as caught:
            read(properties if read is sink_properties else (*TOPIC, *properties))
        assert gist in caught.value.message


@pytest.mark.rules("L6.18", "L6.19")
@pytest.mark.parametrize(
    ("properties", "gist"),
    [
        (
            (("WINDOW_TYPE", "SESSION"), ("WINDOW_SIZE", "1 SECOND")),
            "'WINDOW_SIZE' should not be set for SESSION windows.",
        ),
        ((("WINDOW_TYPE", "TUMBLING"),), "TUMBLING windows require 'WINDOW_SIZE'"),
        ((("WINDOW_SIZE", "1 SECOND"),), "'WINDOW_SIZE' requires 'WINDOW_TYPE'"),
        (
            (("WINDOW_TYPE", "HOPPING"), ("WINDOW_SIZE", "30 bobs")),
            "is invalid: Invalid duration: '30 bobs'. Unknown time unit: 'BOBS'",
        ),
        ((("WINDOW_TYPE", "HOPPING"), ("WINDOW_SIZE", "x SECONDS")), "Not a number: 'x'"),
        ((("WINDOW_TYPE", "TILTING"),), "Invalid value TILTING for configuration WINDOW_TYPE"),
    ],
)
def test_windows(properties: Properties, gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        source_properties((*TOPIC, *properties))
    assert gist in caught.value.message
    with pytest.raises(StatementError, match="Invalid config variable"):
        sink_properties(properties)


def test_a_source_needs_a_topic() -> None:
    with pytest.raises(StatementError, match="KAFKA_TOPIC"):
        source_properties(())


@pytest.mark.rules("L6.21")
def test_query_ids() -> None:
    assert insert_query_id((("QUERY_ID", "my_query"),)) == "MY_QUERY"
    assert insert_query_id(()) is None
    for bad in ("my-query", "csas_x", "InsertQuery_3"):
        with pytest.raises(StatementError, match="QUERY_ID is invalid"):
            insert_query_id((("QUERY_ID", bad),))
