"""What PRINT says of the formats of a topic."""

from __future__ import annotations

import pytest

from kestrel_sql.admin.print_topic import format_lines
from kestrel_sql.session.session import Session


@pytest.mark.rules("R10.1")
@pytest.mark.parametrize(
    ("columns", "properties", "key", "value"),
    [
        ("k STRING KEY, v INT", "value_format='JSON'", "KAFKA_STRING", "JSON or KAFKA_STRING"),
        ("k INT KEY, v INT, w INT", "value_format='DELIMITED'", "KAFKA_INT or KAFKA_STRING", "KAFKA_STRING"),
        (
            "k BIGINT KEY, v INT",
            "format='KAFKA'",
            "KAFKA_BIGINT or KAFKA_DOUBLE or KAFKA_STRING",
            "KAFKA_INT or KAFKA_STRING",
        ),
        (
            "k STRING KEY, v INT",
            "value_format='PROTOBUF_NOSR', window_type='TUMBLING', window_size='1 HOURS'",
            "HOPPING(KAFKA_STRING) or TUMBLING(KAFKA_STRING)",
            "PROTOBUF_NOSR",
        ),
        ("k INT KEY, v INT", "format='JSON', window_type='SESSION'", "SESSION(JSON) or SESSION(KAFKA_STRING)", None),
    ],
)
def test_formats_have_the_names_that_ksqldb_guesses(columns: str, properties: str, key: str, value: str | None) -> None:
    session = Session()
    (parsed,) = session.parse(f"CREATE STREAM s ({columns}) WITH (kafka_topic='s', partitions=1, {properties});")
    session.execute(parsed)
    expected = [f"Key format: {key}", f"Value format: {value or 'JSON or KAFKA_STRING'}"]
    assert format_lines(session.catalog.sources["S"]) == expected


@pytest.mark.rules("R10.1")
def test_a_topic_without_a_source_is_read_as_text() -> None:
    assert format_lines(None) == ["Key format: KAFKA_STRING", "Value format: KAFKA_STRING"]
