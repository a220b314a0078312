from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.record_json import from_json_form, to_json_form
from tests.engine.formats.samples import spec


@pytest.mark.rules("Q6.1", "Q6.2", "Q6.3", "Q6.4")
@pytest.mark.parametrize(
    ("format", "columns", "given", "seen"),
    [
        ("JSON", "A INT", {"a": Decimal("1.50"), "b": [None, "x"]}, {"a": Decimal("1.50"), "b": [None, "x"]}),
        ("DELIMITED", "A INT", "1,x", "1,x"),
        ("KAFKA", "A BIGINT", Decimal("3.7"), 3),
        ("KAFKA", "A DOUBLE", 1, Decimal("1.0")),
        ("KAFKA", "A BYTES", "text", "text"),
        ("KAFKA", "", "anything", "anything"),
        ("AVRO", "A INT, B STRING", {"a": "1", "b": 5, "c": 0}, {"A": 1, "B": "5"}),
        ("JSON_SR", "A DECIMAL(4, 2)", {"A": Decimal("1.5")}, {"A": Decimal("1.50")}),
        ("PROTOBUF", "A DATE, B BYTES", {"A": 10, "B": "AQ=="}, {"A": 10, "B": b"\x01"}),
        ("PROTOBUF_NOSR", "A INT, M MAP<STRING, INT>", {"M": {"x": 1}}, {"A": 0, "M": {"x": 1}}),
        ("JSON", "A INT", None, None),
    ],
)
def test_values_convert_to_bytes_and_back(format: str, columns: str, given: Any, seen: Any) -> None:
    made = spec(format, columns)
    found = to_json_form(made, from_json_form(made, given))
    assert found == seen
    assert str(found) == str(seen)


def test_the_format_none_writes_null_bytes() -> None:
    assert from_json_form(spec("NONE", ""), "x") is None


@pytest.mark.parametrize(
    ("format", "columns", "given"),
    [
        ("DELIMITED", "A INT", 1),
        ("KAFKA", "A INT", "x"),
        ("KAFKA", "A INT", 2**31),
        ("AVRO", "A INT", {"A": Decimal("1.0")}),
        ("AVRO", "A DECIMAL(4, 2)", {"A": 1}),
    ],
)
def test_invalid_values(format: str, columns: str, given: Any) -> None:
    with pytest.raises(SerdeError, match="Cannot write value of topic topic"):
        from_json_form(spec(format, columns), given)
