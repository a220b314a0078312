from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.functions.declaration import CallTypes
from kestrel_sql.functions.library.text import json as j
from kestrel_sql.functions.library.text.json import path_tokens
from kestrel_sql.java.jackson import parse_json, write_json
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import SqlType

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[1, 2.50, 1e3, -0, -0.0]", "[1,2.50,1E+3,0,0.0]"),
        ("0.0000001", "1E-7"),
        ('{"a": 1, "b": 2, "a": 3}', '{"a":3,"b":2}'),
        ('"\\u00e9\\n\\u0001\\/\x7f"', '"é\\n\\u0001/\x7f"'),
        ('"\\ud800"', '"\ud800"'),
        (" true }", "true"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ],
)
def test_json_is_written_as_jackson_writes_it(text: str, shown: str) -> None:
    assert write_json(parse_json(text)) == shown


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_string_is_not_json(text: str) -> None:
    assert not j.is_json_string.body(text)
    assert j.json_array_length.body(text) is None
    assert j.json_keys.body(text) is None
    assert j.json_concat.body(text, "1") is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "abc",
        "[1,]",
        "01",
        "1.",
        "truex",
        "1x",
        "NaN",
        "-",
        "{'a':1}",
        '"\t"',
        DEEP,
        "1" * 5_000,
        "1e99999999999999999999",
        '{"a"',
    ],
)
def test_invalid_json(text: str | None) -> None:
    assert j.is_json_string.body(text) is False


@pytest.mark.parametrize("text", ["1", '"abc"', "[1] x", "null", " {}", "1E400", "1e2000000000"])
def test_valid_json(text: str) -> None:
    assert j.is_json_string.body(text) is True


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.name", "x"),
        ("$.@type:v_1", "T"),
        ("$.list[1]", "2.50"),
        ("$.list[2].deep", '["a"]'),
        ('$["odd \\"name\\""]', "null"),
        ("$.list.1", "2.50"),
        ("$.list[9]", None),
        ("$.list.x", None),
        ("$.name.x", None),
        ("$.none", None),
        ("$[0]", None),
    ],
)
def test_extract(path: str, found: str | None) -> None:
    document = '{"name": "x", "@type:v_1": "T", "list": [1, 2.50, {"deep": ["a"]}], "odd \\"name\\"": null}}'
    assert j.extractjsonfield.body(document, path) == found


@pytest.mark.parametrize("path", ["", "name", "$name", "$.", "$.a b", "$[-1]", "$[1", '$["a]', "$..a", "$.a" * 10_000])
def test_malformed_paths(path: str) -> None:
    with pytest.raises(ValueError, match="Invalid JSON path"):
        path_tokens(path)


@pytest.mark.parametrize(
    ("text", "wanted", "sql_type", "found"),
    [
        ("[1, 2]", 2, t.INTEGER, True),
        ("[1.0]", 1, t.INTEGER, False),
        ("[1.0]", 1.0, t.DOUBLE, True),
        ("[1]", 1.0, t.DOUBLE, False),
        ("[1]", Decimal(1), t.Decimal(2, 0), False),
        ('["1"]', "1", t.STRING, True),
        ("[true]", True, t.BOOLEAN, True),
        ("[1]", True, t.BOOLEAN, False),
        ("[[1], {}, null]", None, t.STRING, True),
        ("[[1]]", 1, t.INTEGER, False),
        ("[1, x", 1, t.INTEGER, True),
        ("[2, x", 1, t.INTEGER, False),
        ("[99999999999, 1]", 1, t.INTEGER, False),
        ("[99999999999, 1]", 1, t.BIGINT, True),
        ('{"a": 1}', 1, t.INTEGER, False),
        ("[]", 1, t.INTEGER, False),
        (DEEP, 1, t.INTEGER, False),
    ],
)
def test_array_contains(text: str, wanted: Any, sql_type: SqlType, found: bool) -> None:
    assert j.json_array_contains.body(CallTypes((t.STRING, sql_type), t.BOOLEAN), text, wanted) is found


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        (('{"a": {"b": 1}}', '{"a": 2, "c": 3}'), '{"a":2,"c":3}'),
        (("[1, 2]", "[3]"), "[1,2,3]"),
        (("[1]", '{"a": 1}', "4"), '[1,{"a":1},4]'),
        (("null", "null"), "[null,null]"),
        (("1",), "1"),
        (("1", "", "x"), None),
        (("1", None, "x"), None),
    ],
)
def test_concat(parts: tuple[str | None, ...], joined: str | None) -> None:
    assert j.json_concat.body(*parts) == joined


def test_items_keys_and_records() -> None:
    assert j.json_items.body('[{"a": 1}, "b", null]') == ['{"a":1}', '"b"', "null"]
    with pytest.raises(ValueError, match="array"):
        j.json_items.body("{}")
    assert j.json_keys.body('{"Red": 3, "Green": 5}') == ["Red", "Green"]
    records = j.json_records.body('{"q": "x", "a": 1, "b": "y"}')
    assert list(records.items()) == [("q", "x"), ("a", "1"), ("b", "y")]
    assert list(j.json_records.body('{"b": 1, "a": 2}')) == ["a", "b"]
    assert j.json_records.body("[]") is None


@pytest.mark.parametrize(
    ("sql_type", "value", "text"),
    [
        (t.STRING, None, "null"),
        (None, None, "null"),
        (t.STRING, 'a"b', '"a\\"b"'),
        (t.BOOLEAN, True, "true"),
        (t.BIGINT, 123, "123"),
        (t.DOUBLE, 123.456, "123.456"),
        (t.DOUBLE, 1e7, "1.0E7"),
        (t.DOUBLE, 1.5e-5, "1.5E-5"),
        (t.DOUBLE, float("nan"), '"NaN"'),
        (t.Decimal(20, 10), Decimal("1.0000000001"), "1.0000000001"),
        (t.Decimal(20, 10), Decimal("1E-10"), "0.0000000001"),
        (t.BYTES, b"!", '"IQ=="'),
        (t.TIME, 60_220_000, '"16:43:40"'),
        (t.TIME, 60_180_000, '"16:43"'),
        (t.DATE, 1_000, '"1972-09-27"'),
        (t.TIMESTAMP, -1, '"1969-12-31T23:59:59.999"'),
        (t.Map(t.STRING, t.INTEGER), {"b": 1, "a": None}, '{"a":null,"b":1}'),
        (
            t.Struct((t.Field("Z", t.INTEGER), t.Field("A", t.Array(t.STRING)))),
            {"Z": 1, "A": ["x", None]},
            '{"A":["x",null],"Z":1}',
        ),
    ],
)
def test_to_json_string(sql_type: SqlType | None, value: Any, text: str) -> None:
    assert j.to_json_string.body(CallTypes((sql_type,), t.STRING), value) == text
