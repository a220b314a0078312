from __future__ import annotations

import pytest

from kestrel_sql.errors import StatementError, TypeMismatchError
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import Record

STREAM = """
CREATE STREAM s (k INT KEY, a BIGINT, b ARRAY<DOUBLE>, m MAP<STRING, INT>, st STRUCT<x INT, y STRING>)
  WITH (kafka_topic='t', value_format='JSON');
"""


def inserted(text: str, create: str = STREAM) -> Record:
    session = Session()
    for parsed in session.parse(create):
        session.execute(parsed)
    (parsed,) = session.parse(text)
    insert = session.execute(parsed).insert
    assert insert is not None
    return insert_record(insert, Constants(session.functions, {}), session.serde(), lambda: 42)


def test_columns_that_are_not_listed_are_null() -> None:
    record = inserted("INSERT INTO s (a) VALUES (-3);")
    assert (record.key, record.timestamp, record.topic) == (None, 42, "t")
    assert record.value == b'{"A":-3,"B":null,"M":null,"ST":null}'


def test_constructors_need_no_spark() -> None:
    values = "7, 1, ARRAY[1E0, CAST(NULL AS DOUBLE)], MAP('a' := 2), STRUCT(y := 'z')"
    record = inserted(f"INSERT INTO s (ROWTIME, k, b, m, st) VALUES ({values});")
    assert (record.key, record.timestamp) == (b"\x00\x00\x00\x01", 7)
    assert record.value == b'{"A":null,"B":[1.0,null],"M":{"a":2},"ST":{"X":null,"Y":"z"}}'


def test_a_null_key_of_a_map_is_written_as_text() -> None:
    assert b'"M":{"null":2}' in (inserted("INSERT INTO s (m) VALUES (MAP(CAST(NULL AS STRING) := 2));").value or b"")


def test_a_struct_without_fields_has_null_fields() -> None:
    assert b'"ST":{"X":null,"Y":null}' in (inserted("INSERT INTO s (st) VALUES (STRUCT());").value or b"")


@pytest.mark.parametrize(
    ("written", "millis"), [("'1970-01-01T00:00:01'", 1000), ("5", 5), ("'1970-01-01T24'", 86_400_000)]
)
def test_rowtime(written: str, millis: int) -> None:
    assert inserted(f"INSERT INTO s (ROWTIME, k) VALUES ({written}, 1);").timestamp == millis


@pytest.mark.parametrize(
    "values", ["(k) VALUES ('one')", "(a) VALUES (1.5)", "(ROWTIME, k) VALUES (-1, 1)", "(b) VALUES (TRUE)"]
)
def test_values_that_do_not_fit(values: str) -> None:
    with pytest.raises(TypeMismatchError):
        inserted(f"INSERT INTO s {values};")


def test_a_table_needs_its_key() -> None:
    table = "CREATE TABLE s (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');"
    with pytest.raises(StatementError, match="required for tables"):
        inserted("INSERT INTO s (v) VALUES (1);", table)
