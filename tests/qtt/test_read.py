from __future__ import annotations

from decimal import Decimal

import pytest

from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_json import parse_json, read_json, strip_comments
from kestrel_qtt.cases.read_yaml import parse_yaml, read_yaml

JSON_TEXT = """// head
{
  "comments": "x", /* many
  lines */
  "tests": [
    {"name": "a", "statements": ["x"],
     "outputs": [
       {"topic": "T", "value": 1.50},
       {"topic": "T", "value": "// no comment"}
     ]},
    {
      "name": "b"
    }
  ]
}
"""

YAML_TEXT = """# head
comments: x
tests:
  - name: a
    statements: [x]
    outputs:
      - {topic: T, value: 1.50}
      - topic: T
        value: "y"

  - statements:
      - |
        two
        lines
    name: b
"""


@pytest.mark.rules("Q1.1", "Q1.2")
def test_json_lines_and_decimals() -> None:
    raw = read_json(JSON_TEXT)
    assert raw.items is not None
    first, second = raw.items
    assert (first.line, second.line) == (6, 12)
    assert first.data["outputs"][0]["value"] == Decimal("1.50")  # type: ignore[index, call-overload]
    assert str(first.data["outputs"][0]["value"]) == "1.50"  # type: ignore[index, call-overload]
    assert first.data["outputs"][1]["value"] == "// no comment"  # type: ignore[index, call-overload]
    assert first.lines_of("outputs") == [8, 9]
    assert first.locate(("outputs", 1, "value")) == 9
    assert first.locate(("outputs", 1, "nothing")) == 9
    assert raw.head == {"comments": "x"}


@pytest.mark.rules("Q1.1", "Q1.2")
def test_yaml_lines_and_decimals() -> None:
    raw = read_yaml(YAML_TEXT)
    assert raw.items is not None
    first, second = raw.items
    assert (first.line, second.line) == (4, 15)
    assert str(first.data["outputs"][0]["value"]) == "1.50"  # type: ignore[index, call-overload]
    assert first.lines_of("outputs") == [7, 8]
    assert second.data == {"statements": ["two\nlines\n"], "name": "b"}
    assert raw.head == {"comments": "x"}


def test_json_and_yaml_of_the_same_content_are_equal() -> None:
    text = (
        '{"tests": [{"name": "a", "statements": ["x"], "inputs": [{"topic": "t", "key": null, "value": {"A": [1,'
        " -2.0e3, true]}}]}]}"
    )
    assert [i.data for i in read_json(text).items or ()] == [i.data for i in read_yaml(text).items or ()]


def test_comments_keep_offsets() -> None:
    text = '{"a": "/*", // x\n "b": 1 /* y */}'
    assert len(strip_comments(text)) == len(text)
    assert parse_json(text) == {"a": "/*", "b": 1}


def read_checked(text: str) -> None:
    for item in read_json(text).items or ():
        if item.error:
            raise TextError(item.line, item.error.message)


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("[]", 1, "one object"),
        ('{"tests": [\n {"name": "a", "name": "b"}]}', 2, "'name' occurs twice"),
        ('{"tests": [],\n "tests": []}', 2, "occurs twice"),
        ('{"tests": [{"a": NaN}]}', 1, "NaN"),
        ('{"tests": []} x', 1, "unexpected text"),
        ('{"tests": [1,\n 2', 2, "expecting"),
        ('{"tests"\n 1}', 2, "expecting `:`"),
        ("{", 1, "expecting"),
        ("", 1, "one object"),
    ],
)
def test_bad_json(text: str, line: int, part: str) -> None:
    with pytest.raises(TextError) as caught:
        read_checked(text)
    assert (caught.value.line, part in caught.value.message) == (line, True), caught.value.message


@pytest.mark.rules("Q1.4")
@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "empty"),
        ("- a", 1, "one mapping"),
        ("a: 1\na: 2", 2, "occurs twice"),
        ("a: &x 1\nb: *x", 1, "anchors"),
        ("b: *x", 1, "undefined alias|alias"),
        ("a: !!str 1", 1, "tags"),
        ("a: !x 1", 1, "tags"),
        ("a:\n  <<: {b: 1}", 2, "merge keys"),
        ("a: yes", 1, "`yes`"),
        ("a: ~", 1, "`~`"),
        ("a:", 1, "an empty value"),
        ("a: 0x1F", 1, "0x1F"),
        ("a: 010", 1, "010"),
        ("a: 1_000", 1, "1_000"),
        ("a: .5", 1, ".5"),
        ("a: 2020-01-01", 1, "2020-01-01"),
        ("a: 1\n---\nb: 1", 2, "one YAML document"),
        ("a: [1", 1, ""),
        ("? [a]\n: 1", 1, "single word"),
    ],
)
def test_bad_yaml(text: str, line: int, part: str) -> None:
    with pytest.raises(TextError) as caught:
        read_yaml(text)
    assert caught.value.line == line or not part
    assert any(p in caught.value.message for p in part.split("|")), caught.value.message


@pytest.mark.rules("Q1.4")
@pytest.mark.parametrize(
    ("text", "value"),
    [("null", None), ("true", True), ("-1", -1), ("1e3", Decimal("1E+3")), ("a b", "a b"), ("'yes'", "yes")],
)
def test_yaml_scalars(text: str, value: object) -> None:
    assert parse_yaml(f"a: {text}").value == {"a": value}
