from __future__ import annotations

import copy
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kestrel_qtt.cases.discovery import case_file
from kestrel_qtt.cases.expand import slug
from kestrel_qtt.cases.model import CaseFileError, Window
from kestrel_qtt.cases.read_yaml import read_yaml
from kestrel_qtt.cases.schema import is_valid, schema_text
from kestrel_qtt.load import case_of_spec, load, load_stored


def write(path: Path, *cases: Any, **members: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"tests": list(cases), **members}, indent=1))
    return path


def case(name: str = "a case", **members: Any) -> dict[str, Any]:
    return {"name": name, "statements": ["X"], "outputs": [], **members}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    return tmp_path / "test-cases"


@pytest.mark.rules("Q3.1", "Q3.2")
def test_expansion(folder: Path) -> None:
    path = write(
        folder / "area" / "topic.json",
        case(
            "It works: `a`!",
            statements=["F {FORMAT}"],
            format=["JSON", "AVRO"],
            config=["1", "2"],
            properties={"p": "{config}", "q": 1},
        ),
    )
    cases = load(path).cases
    assert [c.id for c in cases] == [
        f"test-cases/area/topic.json::it-works-a[{f}][p={n}]" for f in ("JSON", "AVRO") for n in (1, 2)
    ]
    assert cases[0].name == "topic - It works: `a`! - JSON - p=1"
    assert cases[3].statements == ("F AVRO",)
    assert cases[3].properties == {"p": "2", "q": 1}
    assert cases[3].format == "AVRO"
    assert cases[0].line == 4


def test_outputs_not_given_differ_from_silence(folder: Path) -> None:
    open_case = case("b")
    del open_case["outputs"]
    silent, left_out = load(write(folder / "x.json", case(), open_case)).cases
    assert silent.outputs == ()
    assert left_out.outputs is None


def test_the_rules_that_a_case_proves(folder: Path) -> None:
    loaded = load(write(folder / "x.json", case(rules=["L4.6.2", "O1.1"])))
    assert [c.rules for c in loaded.cases] == [("L4.6.2", "O1.1")]
    (error,) = load(write(folder / "y.json", case(rules=["casts"]))).errors
    assert "rules[0]" in error.message


@pytest.mark.rules("Q5.1")
def test_records(folder: Path) -> None:
    record = {
        "topic": "t",
        "value": None,
        "window": {"start": 1, "end": 2, "type": "session"},
        "headers": [{"KEY": "k", "VALUE": "YQ=="}, {"KEY": "n"}],
    }
    (loaded,) = load(
        write(folder / "x.json", case(inputs=[{**record, "partition": 1, "offset": 7}], outputs=[record]))
    ).cases
    assert loaded.inputs[0].headers == (("k", b"a"), ("n", None))
    assert loaded.inputs[0].window == Window(1, 2, "session")
    assert (loaded.inputs[0].timestamp, loaded.inputs[0].partition, loaded.inputs[0].offset) == (0, 1, 7)
    assert loaded.outputs is not None
    assert (loaded.outputs[0].timestamp, loaded.outputs[0].partition) == (None, None)
    assert loaded.outputs[0].line is not None


@pytest.mark.rules("Q1.3", "Q1.5", "Q2.1")
@pytest.mark.parametrize(
    ("members", "part"),
    [
        ({"outptus": []}, "`outptus` is not a field; did you mean `outputs`?"),
        ({"enabled": False}, "`enabled` is not a field; the fields are"),
        (
            {"outputs": [{"topic": "t", "value": 1, ",timestamp": 1}]},
            "outputs[0]: `,timestamp` is not a field; did you mean `timestamp`?",
        ),
        ({"outputs": [{"topic": "t"}]}, "outputs[0]: the field `value` is missing"),
        (
            {"inputs": [{"topic": "t", "value": 1, "timestamp": "1"}]},
            "inputs[0].timestamp: '1' is not of type 'integer'",
        ),
        ({"inputs": [{"topic": "t", "value": 1, "headers": [{"KEY": "a", "VALUE": "%"}]}]}, "is not base64"),
        ({"statements": []}, "statements"),
        ({"statements": ["{FORMAT}"]}, "has no `format`"),
        ({"config": ["a"]}, "exactly one property"),
        ({"expectedException": {}}, "expectedException"),
        ({"expectedException": {"type": "x"}}, "`type` is not a field"),
        ({"name": " a"}, "name"),
        ({"format": []}, "format"),
    ],
)
def test_bad_case_leaves_the_others(folder: Path, members: dict[str, Any], part: str) -> None:
    loaded = load(write(folder / "x.json", case("good"), {**case("bad"), **members}))
    assert [c.name for c in loaded.cases] == ["x - good"]
    (error,) = loaded.errors
    assert part in error.message
    assert error.line > 8
    assert error.file == folder / "x.json"


def test_error_line_is_that_of_the_member(folder: Path) -> None:
    folder.mkdir()
    path = folder / "x.yaml"
    path.write_text("tests:\n  - name: a\n    statements: [x]\n    inputs:\n      - topic: t\n        valeu: 1\n")
    (error,) = load(path).errors
    assert (error.line, error.message) == (6, "case 'a': inputs[0]: `valeu` is not a field; did you mean `value`?")


def test_each_slip_is_said_once(folder: Path) -> None:
    members = {"name": "a", "statments": ["X"], "outptus": [], "inputs": [{"topic": "t", "valeu": 1}]}
    assert [error.message for error in load(write(folder / "x.json", members)).errors] == [
        "case 'a': `statments` is not a field; did you mean `statements`?",
        "case 'a': `outptus` is not a field; did you mean `outputs`?",
        "case 'a': inputs[0]: `valeu` is not a field; did you mean `value`?",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"tests": []}',
        '{"test": [{"name": "a", "statements": ["x"]}]}',
        "{}",
        '{"tests": 1}',
        '{"tests": [1]}',
        "",
        "{",
    ],
)
def test_bad_file(folder: Path, text: str) -> None:
    folder.mkdir()
    path = folder / "x.json"
    path.write_text(text)
    loaded = load(path)
    assert not loaded.cases
    assert len(loaded.errors) == 1


@pytest.mark.rules("Q3.2")
def test_same_name_and_same_slug_are_refused(folder: Path) -> None:
    loaded = load(write(folder / "x.json", case("a b"), case("a b"), case("a-b")))
    assert len(loaded.cases) == 1
    assert ["same id" in error.message for error in loaded.errors] == [True, True]


@pytest.mark.rules("Q1.3", "Q2.2")
def test_foreign_files_are_tolerant(tmp_path: Path) -> None:
    raw = {
        "name": "n",
        "statements": ["X"],
        "inputs": [{"topic": "t", "value": 1, "N4": 2}],
        "issue": 1,
        "enabled": True,
        "topics": [{"name": "t", "schema": 1}],
    }
    exception = {"type": "a.KsqlException", "message": "m"}
    path = write(
        tmp_path / "query-validation-tests" / "f.json",
        raw,
        {**raw, "name": "off", "enabled": False},
        {**raw, "name": "a < b", "expectedException": exception},
        {**raw, "name": "a > b"},
        {"name": "nothing", "statements": ["X"]},
        comments=[1],
    )
    loaded = load(path)
    assert [c.id.rpartition("::")[2] for c in loaded.cases] == ["n", "a-b", "a-b~2"]
    assert all(c.tolerant for c in loaded.cases)
    assert len(loaded.errors) == 1
    assert loaded.cases[0].outputs is None


def test_foreign_case_cannot_be_an_own_case(folder: Path) -> None:
    assert load(write(folder / "x.json", case(issue=1))).errors


def test_stored_spec(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    folder = tmp_path / "historic-plans" / "c" / "1.0.0_1"
    folder.mkdir(parents=True)
    inner = case("n", topics=[{"name": "t", "numPartitions": 3}], post={"topics": {"blackList": "x"}})
    (folder / "spec.json").write_text(json.dumps({"version": "1", "testCase": inner}))
    (folder / "plan.json").write_text("{}")
    stored = load_stored(case_file(folder / "spec.json"))
    assert stored.plan == folder / "plan.json"
    assert stored.topics[0].partitions == 3
    assert stored.post is not None
    assert stored.post.blacklist == "x"
    assert stored.id == "historic-plans/c/1.0.0_1/spec.json::n"
    assert stored.tolerant
    (folder / "spec.json").write_text(json.dumps({"version": "1", "testCase": inner, "hash": "x"}))
    with pytest.raises(CaseFileError, match="was changed"):
        load_stored(case_file(folder / "spec.json"))
    assert not case_of_spec(case_file(folder / "spec.json"), {"testCase": inner, "hash": "x"}).tolerant
    (folder / "spec.json").write_text("{}")
    with pytest.raises(CaseFileError, match="testCase"):
        load_stored(case_file(folder / "spec.json"))


def test_names() -> None:
    assert slug("LPad - with `x`, Ünï_code") == "lpad-with-x-ünï-code"
    assert slug("!!!") == "case"


def test_schema_is_a_schema() -> None:
    schema = json.loads((Path(__file__).parents[2] / "qtt" / "kestrel_qtt" / "cases" / "case.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    objects = [d for d in schema["$defs"].values() if d.get("type") == "object"]
    assert all(d.get("additionalProperties") is False for d in objects)


def test_both_validators_agree_on_cases() -> None:
    schema = json.loads(schema_text())
    case = {"$ref": "#/$defs/case", "$defs": schema["$defs"]}
    validator, rng = Draft202012Validator(case), random.Random(7)
    texts = [
        path.read_text() for path in sorted((Path(__file__).parents[2] / "test-cases").glob("[fjw]*s/*.yaml"))[::6]
    ]
    cases = [each.data for text in texts for each in read_yaml(text).items or ()]
    assert [each for each in cases if is_valid(each, "case") != validator.is_valid(each)] == []
    changed = [damaged(copy.deepcopy(each), rng) for each in cases for _ in range(10)]
    passed = [each for each in changed if is_valid(each, "case")]
    assert 0.05 * len(changed) < len(passed) < 0.9 * len(changed)
    assert passed == [each for each in changed if validator.is_valid(each)]


def damaged(value: Any, rng: random.Random) -> Any:
    """Change one member somewhere in a case: another name, or a value of another type."""
    holders = [value]
    for each in holders:
        below = each.values() if isinstance(each, dict) else each
        holders += [part for part in below if isinstance(part, dict | list) and part]
    holder = rng.choice(holders)
    at = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    if isinstance(holder, dict) and rng.random() < 0.3:
        holder[f"{at}s"] = holder.pop(at)
    else:
        holder[at] = rng.choice([None, True, 1, 0, -1, 1.5, Decimal("2.5"), "", " x ", "JSON", "time", [], {}, [1, 1]])
    return value
