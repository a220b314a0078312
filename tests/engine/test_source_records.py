"""Records of a source: JSON and rows to bytes and back."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kestrel_sql.errors import SerdeError
from kestrel_sql.session.session import Session
from kestrel_sql.session.source_records import SourceRecords

WITH = "WITH (kafka_topic='t', key_format='KAFKA', value_format='{value}'{more})"


def records(columns: str = "k INT KEY, v DOUBLE, s STRING", value: str = "JSON", more: str = "") -> SourceRecords:
    session = Session()
    (parsed,) = session.parse(f"CREATE STREAM t ({columns}) {WITH.format(value=value, more=more)};")
    session.execute(parsed)
    return SourceRecords.of(session.catalog.sources["T"], session.serde())


@pytest.mark.parametrize("value", ["JSON", "AVRO", "PROTOBUF"])
def test_json_comes_back_as_it_was(value: str) -> None:
    of = records(value=value)
    record = of.from_json(1, {"V": Decimal("1.5"), "S": "x"}, 10, headers=(("h", b"1"),))
    assert (record.topic, record.key, record.timestamp, record.headers) == ("t", b"\0\0\0\1", 10, (("h", b"1"),))
    assert of.key_to_json(record.key) == (1, None)
    assert of.value_to_json(record.value) == {"V": Decimal("1.5"), "S": "x"}
    assert of.to_row(record) == {"ROWTIME": 10, "K": 1, "V": 1.5, "S": "x"}
    assert of.to_row(of.from_row(of.to_row(record), 10)) == of.to_row(record)


@pytest.mark.parametrize(
    ("more", "kind", "size"),
    [(", window_type='TUMBLING', window_size='5 MILLISECONDS'", "time", 8), (", window_type='SESSION'", "session", 16)],
)
def test_a_window_stands_behind_the_key(more: str, kind: str, size: int) -> None:
    of = records(more=more)
    record = of.from_json(1, None, 0, window=(10, 15))
    assert len(record.key or b"") == 4 + size
    assert of.key_to_json(record.key) == (1, (10, 15))
    assert of.window_kind == kind
    assert of.key_from_json(1) == b"\0\0\0\1"
    assert of.to_row(record) == {"ROWTIME": 0, "K": 1, "V": None, "S": None}


def test_a_missing_key_and_a_window_that_the_source_does_not_have() -> None:
    of = records()
    assert of.from_json(None, None, 0, window=(1, 2)).key is None
    assert of.from_json(1, None, 0, window=(1, 2)).key == b"\0\0\0\1"
    assert of.from_row({"V": 1.0}, 0).key is None
    assert of.key_to_json(None) == (None, None)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SerdeError, match="Cannot write key of topic t as KAFKA"):
        records().from_json("one", None, 0)
    with pytest.raises(SerdeError):
        records(more=", window_type='SESSION'").key_to_json(b"\0\0\0\1")
