"""Damaged case files: whatever stands in one, the error names the place in it and is none of Python's own."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from kestrel_qtt.cases.discovery import CaseFile, Kind
from kestrel_qtt.cases.model import CaseFileError
from kestrel_qtt.load import load

_RECORD = {
    "topic": "a",
    "key": "k",
    "value": {"N": 1},
    "timestamp": 7,
    "window": {"start": 0, "end": 9, "type": "time"},
    "headers": [{"KEY": "h", "VALUE": "AA=="}],
    "partition": 1,
    "offset": 3,
}
_FORMAT = {
    "format": "JSON",
    "properties": {"x": "y"},
    "features": ["WRAP_SINGLES"],
    "windowInfo": {"type": "TUMBLING", "size": 30.5},
}
_TOPIC = {
    "name": "a",
    "partitions": 2,
    "replicas": 1,
    "keyFormat": "KAFKA",
    "valueFormat": "AVRO",
    "valueSchema": {"type": "int"},
    "valueSchemaId": 3,
    "valueSchemaReferences": [{"name": "r", "format": "AVRO", "schema": {"type": "int"}}],
    "valueSerdeFeatures": ["WRAP_SINGLES"],
}
_CASE = {
    "name": "one",
    "statements": ["CREATE STREAM a (n INT) WITH (kafka_topic='a', value_format='{FORMAT}');"],
    "format": ["JSON", "AVRO"],
    "config": ["on", "off"],
    "properties": {"p": "{CONFIG}"},
    "topics": [_TOPIC],
    "inputs": [_RECORD],
    "outputs": [_RECORD],
    "expectedException": {"type": "x.Y", "message": "no", "cause": "c", "causeMessage": "d"},
    "post": {
        "sources": [
            {
                "name": "A",
                "type": "stream",
                "schema": "N INT",
                "keyFormat": {"format": "KAFKA", "windowType": "SESSION", "windowSize": 5},
                "valueFormat": "JSON",
                "keyFeatures": [],
                "valueFeatures": ["WRAP_SINGLES"],
                "isSource": True,
            }
        ],
        "topics": {
            "blacklist": ".*-repartition",
            "topics": [{"name": "a", "keyFormat": _FORMAT, "valueFormat": _FORMAT, "partitions": 4}],
        },
    },
    "log": [{"type": "deserialization", "message": "m", "topic": "a", "offset": 2}],
    "rules": ["Q1.1"],
}
_OURS = {
    **_CASE,
    "topics": [{name: value for name, value in _TOPIC.items() if name not in ("keyFormat", "valueSerdeFeatures")}],
    "expectedException": {"message": "no", "code": "SYNTAX"},
    "ignore": ["value.N"],
    "unordered": True,
    "tolerance": 0.5,
}
_OF_FILES = {
    "name": "of files",
    "statements": {"file": "app.sql"},
    "variables": {"topic": "a"},
    "inputs": [{"file": "a.csv", "topic": "a"}, {"file": "b.jsonl"}],
    "outputs": [],
}
_REST = {
    **{name: _CASE[name] for name in ("name", "statements", "topics", "inputs", "outputs", "properties")},
    "responses": [{"admin": {"@type": "x"}}, {"query": [{"row": {"columns": [1]}}]}, {"queryProto": ["x"]}],
    "inputConditions": {"waitForActivePushQuery": True},
    "outputConditions": {"verifyOrder": True},
    "testPullWithProtoFormat": True,
}
_REFUSED = {"name": "two", "statements": ["SELECT 1;"], "expectedError": {"type": "x", "message": "m", "status": 400}}
_SERDE = {"schema": "`N` INTEGER", "keyFormat": _FORMAT, "valueFormat": _FORMAT}
_SPEC = {"version": "8.0.0", "path": "x/y.json", "schemas": {"q.sink": _SERDE}, "testCase": _CASE}

_WRONG: list[Any] = [None, True, -1, 10**30, 1e300, "x", "(", "\ud800", "", [], [None], [[1]], {}, {"x": 1}]


def mutants(document: Any) -> Iterator[Any]:
    """The document with each of its values, one after the other, removed, replaced and doubled."""
    for path in list(_paths(document)):
        for wrong in _WRONG:
            mutant = copy.deepcopy(document)
            holder = _at(mutant, path[:-1])
            holder[path[-1]] = wrong
            yield mutant
        mutant = copy.deepcopy(document)
        holder = _at(mutant, path[:-1])
        if isinstance(holder, list):
            holder.append(holder[path[-1]])
            yield mutant
        del holder[path[-1]]
        yield mutant


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield (*path, step)
        yield from _paths(value[step], (*path, step))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def damaged_texts(text: str) -> Iterator[str]:
    """The text cut off at each place, and with a sign put there."""
    signs = ["-", '"', "{", "[", "}", "]", ":", ",", "/*", "1e999999999999999999999", "9" * 5000, "\\ud800", "\x00"]
    for at in range(0, len(text), 3):
        yield text[:at]
        yield text[:at] + signs[at // 3 % len(signs)] + text[at:]
        yield text[:at] + text[at + 1 + at % 7 :]
    for bracket in "[{":
        yield text.replace("7", bracket * 100_000, 1)
        yield text.replace("7", '{"a":' * 300 + "1" + "}" * 300, 1)


BESIDE = {"app.sql": "SELECT 1;", "a.csv": "ROWTIME,N\n1,2\n", "b.jsonl": '{"value": 1}\n'}
"""Files that cases name."""


def check(path: Path, kind: Kind, text: str, *, ksqldb: bool = False) -> list[CaseFileError]:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for name, content in BESIDE.items():
        path.with_name(name).write_text(content)
    loaded = load(CaseFile(path, kind, path.parent, ksqldb=ksqldb))
    assert loaded.cases or loaded.errors
    for error in loaded.errors:
        at = error.file.read_bytes()
        assert error.file.parent == path.parent
        assert 1 <= error.line <= at.count(b"\n") + 1, str(error)
        str(error).encode()
    for case in loaded.cases:
        case.id.encode()
    return list(loaded.errors)


DOCUMENTS: dict[str, tuple[str, Kind, bool, Any]] = {
    "of ours": ("a.json", Kind.CASES, False, {"tests": [_OURS, _OF_FILES]}),
    "of ksqlDB": ("a.json", Kind.CASES, True, {"tests": [_CASE]}),
    "REST": ("a.json", Kind.REST, True, {"tests": [_REST, _REFUSED]}),
    "stored": ("spec.json", Kind.STORED, False, _SPEC),
}


SHARES = (17, pytest.param(1, marks=pytest.mark.nightly))
"""One of 17 mutants on every change, all of them at night."""


@pytest.mark.rules("Q1.8")
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_with_wrong_values(tmp_path: Path, name: str, share: int) -> None:
    file, kind, ksqldb, document = DOCUMENTS[name]
    assert not check(tmp_path / file, kind, json.dumps(document), ksqldb=ksqldb)
    for mutant in islice(mutants(document), 0, None, share):
        check(tmp_path / file, kind, json.dumps(mutant, indent=1), ksqldb=ksqldb)


@pytest.mark.rules("Q1.8")
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_damaged_text(tmp_path: Path, name: str, share: int) -> None:
    file, kind, ksqldb, document = DOCUMENTS[name]
    for text in islice(damaged_texts(json.dumps(document, indent=1)), 0, None, share):
        check(tmp_path / file, kind, text, ksqldb=ksqldb)


@pytest.mark.rules("Q1.8")
@pytest.mark.parametrize("share", SHARES)
def test_three_files_beside_each_other(tmp_path: Path, share: int) -> None:
    (tmp_path / "statements.sql").write_text("SELECT 1;")
    document = {"outputs": [_RECORD]}
    texts = [*map(json.dumps, mutants(document)), *damaged_texts(json.dumps(document, indent=1))]
    for text in texts[::share]:
        (tmp_path / "output.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        check(tmp_path / "statements.sql", Kind.THREE_FILE, "SELECT 1;")


@pytest.mark.rules("Q1.8")
@pytest.mark.parametrize("share", SHARES)
def test_a_damaged_yaml(tmp_path: Path, share: int) -> None:
    text = yaml.safe_dump(json.loads(json.dumps({"tests": [_OURS]})), sort_keys=False)
    assert not check(tmp_path / "a.yaml", Kind.CASES, text)
    for damaged in islice(damaged_texts(text), 0, None, share):
        check(tmp_path / "a.yaml", Kind.CASES, damaged)


@pytest.mark.rules("Q1.8")
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", BESIDE)
def test_a_damaged_file_that_a_case_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, share: int
) -> None:
    text = json.dumps({"tests": [_OF_FILES]})
    for damaged in islice(damaged_texts(BESIDE[name] * 9), 0, None, share):
        monkeypatch.setitem(BESIDE, name, damaged.replace("\ud800", ""))
        check(tmp_path / "a.json", Kind.CASES, text)


@pytest.mark.rules("Q1.8")
@pytest.mark.parametrize(
    ("member", "said"),
    [
        ('"post": 3', "`post` must be an object"),
        ('"expectedException": {"message": 3}', "`message` must be a string"),
        ('"inputs": [{"topic": "a", "value": 1, "timestamp": 9223372036854775808}]', "`timestamp` must be between"),
        ('"inputs": -', "expecting value"),
        ('"inputs": [{"topic": "a", "value": 1e99999999999999999999}]', "out of range"),
    ],
)
def test_the_error_has_the_line_of_the_value(tmp_path: Path, member: str, said: str) -> None:
    text = (
        f'{{"tests": [{{\n"name": "one",\n"statements": ["S;"],\n{member},\n"outputs": [{{"topic": "a", "value":'
        " 1}]\n}]}"
    )
    (error,) = check(tmp_path / "a.json", Kind.CASES, text, ksqldb=True)
    assert said in error.message
    assert error.line == 4
