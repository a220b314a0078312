from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.table import decoder
from tests.engine.formats.samples import spec


@pytest.mark.rules("F4.4.4", "F4.4.8", "F4.4.10")
@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("A INT", "1.9", 1),
        ("A INT", "2147483648", -(2**31)),
        ("A INT", '"12"', 12),
        ("A BIGINT", "9007199254740993.0", 9007199254740993),
        ("A BIGINT", "1e3", 1000),
        ("A DOUBLE", "1", 1.0),
        ("A DOUBLE", '"1e3"', 1000.0),
        ("A STRING", "1.50", "1.50"),
        ("A STRING", "true", "true"),
        ("A STRING", '{"b": 1.50, "a": [null]}', '{"b":1.50,"a":[null]}'),
        ("A STRING", '[1, "x", [2]]', "[1, x, [2]]"),
        ("A STRING", '"\\ud83d\\ude00"', "😀"),
        ("A STRING", '"\\ud83d"', "\ud83d"),
        ("A DECIMAL(4, 2)", "1.2", Decimal("1.20")),
        ("A DECIMAL(20, 18)", "1.123456789012345678", Decimal("1.123456789012345678")),
        ("A BYTES", '"AQI="', b"\x01\x02"),
        ("A DATE", '"10"', 10),
        ("A MAP<STRING, INT>", '{"x": "1", "y": null}', {"x": 1, "y": None}),
        ("A STRUCT<B INT>", '{"b": 1, "z": 2}', {"B": 1}),
    ],
)
def test_coercions(column: str, text: str, value: Any) -> None:
    decode = decoder(spec("JSON", column))
    found = decode(f'{{"a": {text}}} and more'.encode())
    assert found == (value,)
    assert str(found[0]) == str(value)


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("A BOOLEAN", '"true"', r"Can't convert type. sourceType: TextNode, requiredType: BOOLEAN, path: \$.A"),
        ("A INT", '"1.0"', r"Can't coerce string to type. targetType: INTEGER, path: \$.A"),
        ("A INT", "true", "sourceType: BooleanNode"),
        ("A DECIMAL(3, 2)", "1.234", "without rounding"),
        ("A TIME", "86400001", "Time values"),
        ("A ARRAY<INT>", "[1, {}]", r"path: \$.A\[1\]"),
        ("A STRUCT<B INT>", '{"B": []}', r"path: \$.A.B"),
    ],
)
def test_invalid_values(column: str, text: str, reason: str) -> None:
    with pytest.raises(SerdeError, match=f"Failed to deserialize value from topic: topic. .*{reason}"):
        decoder(spec("JSON", column))(f'{{"A": {text}}}'.encode())


def test_exact_names_win_over_names_in_another_case() -> None:
    decode = decoder(spec("JSON", "A INT, `b` INT, C INT"))
    assert decode(b'{"a": 1, "A": 2, "b": 3, "B": 4, "x": 5}') == (2, 3, None)


@pytest.mark.rules("F4.4.2")
@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{", b'{"A": NaN}', b"\xff", b"[" * 100_000])
def test_invalid_records(data: bytes) -> None:
    with pytest.raises(SerdeError):
        decoder(spec("JSON", "A INT"))(data)


@pytest.mark.rules("F4.4.2")
def test_bare_null_is_a_null_column() -> None:
    assert decoder(spec("JSON", "A INT", unwrapped=True))(b"null") == (None,)
