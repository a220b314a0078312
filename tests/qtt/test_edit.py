from __future__ import annotations

import pytest

from kestrel_qtt.cases.edit import Entry, edit_list
from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.cases.read_yaml import parse_yaml

YAML = """\
# what the application does
tests:
  - name: other
    statements: [X]
    outputs: [{topic: OUT, value: 1}]

  - name: "mine"       # the one
    statements: [X]
    outputs:
      # the first
      - {topic: OUT, value: {A: 1.50, B: "x"}}   # kept
      # the second
      - topic: OUT
        value:
          A: 1e3   # a thousand
      - {topic: OUT, value: null}
    comments: end
"""
JSON = """\
{
  "tests": [
    {"name": "mine", "outputs": [
      // the first
      {"topic": "OUT", "value": {"A": 1.50, "B": "x, y"}},
      /* the second */ {"topic": "OUT", "value": {"A": 1e3}},
      {"topic": "OUT", "value": null} // last
    ], "statements": ["X"]}
  ]
}
"""
NEW = Entry(text='{"topic": "OUT", "value": 7}')
KEPT = [Entry(0), Entry(1), Entry(2)]


@pytest.mark.parametrize(("text", "is_json"), [(YAML, False), (JSON, True)], ids=["yaml", "json"])
def test_nothing_changed_is_the_same_text(text: str, is_json: bool) -> None:
    assert edit_list(text, is_json, "mine", KEPT) == text


@pytest.mark.parametrize(("text", "is_json"), [(YAML, False), (JSON, True)], ids=["yaml", "json"])
def test_a_changed_value_leaves_all_else(text: str, is_json: bool) -> None:
    entries = [Entry(0, changes=((("value", "B"), '"z"'),)), Entry(1, changes=((("value", "A"), "1001"),)), Entry(2)]
    expected = text.replace('"x"', '"z"').replace('"x, y"', '"z"').replace("1e3", "1001")
    assert edit_list(text, is_json, "mine", entries) == expected


@pytest.mark.parametrize(("text", "is_json"), [(YAML, False), (JSON, True)], ids=["yaml", "json"])
@pytest.mark.parametrize(
    "entries",
    [
        [Entry(0), NEW, Entry(1), Entry(2)],
        [NEW, Entry(2), Entry(0), Entry(1)],
        [Entry(1)],
        [Entry(0), Entry(1), Entry(2), NEW],
        [NEW, NEW],
        [],
    ],
)
def test_records_come_go_and_move(text: str, is_json: bool, entries: list[Entry]) -> None:
    after = edit_list(text, is_json, "mine", entries)
    parsed = parse_json(after) if is_json else parse_yaml(after).value
    assert isinstance(parsed, dict)
    tests = parsed["tests"]
    assert isinstance(tests, list)
    case = next(each for each in tests if isinstance(each, dict) and each["name"] == "mine")
    before = parse_json(text) if is_json else parse_yaml(text).value
    old = next(each for each in before["tests"] if each["name"] == "mine")["outputs"]  # type: ignore[index, call-overload, union-attr]
    assert case["outputs"] == [old[e.index] if e.index is not None else {"topic": "OUT", "value": 7} for e in entries]
    assert "1.50" in after or Entry(0) not in entries
    assert "the second" in after or Entry(1) not in entries
    assert ("comments: end" in after) == (not is_json)


def test_a_list_in_one_line() -> None:
    after = edit_list(YAML, False, "other", [Entry(0), NEW])
    assert 'outputs: [{topic: OUT, value: 1}, {"topic": "OUT", "value": 7}]' in after
    assert "outputs: []" in edit_list(YAML, False, "other", [])
    empty = YAML.replace("[{topic: OUT, value: 1}]", "[]")
    assert parse_yaml(edit_list(empty, False, "other", [NEW, NEW])).value
    one = '{"tests": [{"name": "a", "outputs": []}]}'
    assert parse_json(edit_list(one, True, "a", [NEW])) == {
        "tests": [{"name": "a", "outputs": [{"topic": "OUT", "value": 7}]}]
    }


def test_what_is_not_there() -> None:
    with pytest.raises(TextError):
        edit_list(YAML, False, "gone", KEPT)
    with pytest.raises(TextError):
        edit_list(JSON, True, "gone", KEPT)
    with pytest.raises(TextError):
        edit_list(JSON, True, "mine", [Entry(0, changes=((("value", "C"), "1"),))])
