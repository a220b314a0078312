from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import ActualRecord, Case, Rejected, Status
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.ksqldb.rest_cases import Answer, Answered, RestCase
from kestrel_qtt.load import load

QUERY = [
    {"header": {"schema": "`A` INTEGER", "queryId|starts_with": "q"}},
    {"row": {"columns": [1]}},
    {"row": {"columns": [2]}},
]
CASE = {
    "name": "one",
    "statements": ["CREATE STREAM s;", "SELECT * FROM s;"],
    "inputs": [{"topic": "t", "value": 1}],
    "outputs": [{"topic": "t", "key": None, "value": 1}],
    "responses": [
        {"admin": {"@type": "currentStatus"}},
        {"query": QUERY},
    ],
}
ADMIN = Answer("admin", ({"@type": "currentStatus", "more": 1},))
HEADER = {"header": {"schema": "`A` INTEGER", "queryId": "q_1"}}
RECORDS = {"t": (ActualRecord(value=1, headers=(("h", None),)), ActualRecord(value=2))}


def rest(folder: Path, *cases: Any) -> RestCase:
    path = folder / "x.rest.json"
    path.write_text(json.dumps({"tests": list(cases)}), encoding="utf-8")
    loaded = load(path)
    assert loaded.errors == ()
    (case,) = loaded.cases
    assert isinstance(case, RestCase)
    return case


def rows(*values: int) -> Answer:
    return Answer("query", (HEADER, *({"row": {"columns": [value]}} for value in values)))


def outcome(*answers: Answer) -> Answered:
    return Answered(records=RECORDS, answers=answers)


@pytest.mark.rules("Q13.3")
def test_rows_come_in_any_order_unless_it_is_asked_for(tmp_path: Path) -> None:
    case = rest(tmp_path, CASE)
    assert judge(case, outcome(ADMIN, rows(2, 1))).status is Status.PASSED
    ordered = replace(case, in_order=True)
    assert judge(ordered, outcome(ADMIN, rows(1, 2))).status is Status.PASSED
    assert judge(ordered, outcome(ADMIN, rows(2, 1))).status is Status.FAILED


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((ADMIN,), "response 1: there is none"),
        ((ADMIN, rows(1, 2), ADMIN), "response 2: not expected"),
        ((rows(1, 2), ADMIN), "response 0: admin expected, not query"),
        ((ADMIN, rows(1)), "3 elements expected, 2 given"),
        ((ADMIN, rows(1, 1)), '"columns": \\[2\\].* is not among'),
        ((Answer("admin", ({"@type": "other"},)), rows(1, 2)), "currentStatus"),
        (
            (ADMIN, Answer("query", ({"header": {"schema": "`B` INTEGER", "queryId": "q"}}, *rows(1, 2).elements[1:]))),
            "is not among",
        ),
        (
            (ADMIN, Answer("query", ({"header": {"schema": "`A` INTEGER", "queryId": "x"}}, *rows(1, 2).elements[1:]))),
            "is not among",
        ),
    ],
)
def test_differences(tmp_path: Path, answers: tuple[Answer, ...], reason: str) -> None:
    result = judge(rest(tmp_path, CASE), outcome(*answers))
    assert result.status is Status.FAILED
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(result.reason)


def test_a_tombstone_is_not_a_row(tmp_path: Path) -> None:
    case = rest(tmp_path, {**CASE, "responses": [{"query": [HEADER, {"row": {"columns": [None], "tombstone": True}}]}]})
    tombstone = Answer("query", (HEADER, {"row": {"columns": [None], "tombstone": True}}))
    assert judge(case, outcome(tombstone)).status is Status.PASSED
    assert judge(case, outcome(Answer("query", (HEADER, {"row": {"columns": [None]}})))).status is Status.FAILED


def test_records_are_compared_as_far_as_they_are_expected(tmp_path: Path) -> None:
    case = rest(tmp_path, {**CASE, "responses": []})
    assert judge(case, outcome()).status is Status.PASSED
    wrong = rest(
        tmp_path, {**CASE, "responses": [], "outputs": [{"topic": "t", "value": 9}, {"topic": "u", "value": 1}]}
    )
    assert "topic u: 1 record expected, 0 written" in judge(wrong, outcome()).reason


@pytest.mark.rules("Q13.4")
def test_an_expected_error(tmp_path: Path) -> None:
    case = rest(tmp_path, {"name": "e", "statements": ["x"], "expectedError": {"message": "no such"}})
    assert judge(case, Rejected("there is no such thing", statement_index=0)).status is Status.PASSED
    assert judge(case, Rejected("else", statement_index=0)).status is Status.FAILED
    assert judge(case, Rejected("else", statement_index=0), tolerant_errors=True).status is Status.PASSED
    assert judge(case, outcome()).status is Status.FAILED


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"statements": ["x"]},
        {**CASE, "expectedError": {"message": "x"}},
        {"name": "x", "statements": ["x"], "expectedError": {}},
        {**CASE, "responses": [1]},
        {**CASE, "response": []},
    ],
)
def test_cases_that_cannot_be_read(tmp_path: Path, wrong: Any) -> None:
    path = tmp_path / "x.rest.json"
    path.write_text(json.dumps({"tests": [wrong]}), encoding="utf-8")
    loaded = load(path)
    assert (loaded.cases, len(loaded.errors)) == ((), 1)


@pytest.mark.rules("Q13.1")
def test_options_and_formats(tmp_path: Path) -> None:
    path = tmp_path / "x.rest.yaml"
    path.write_text(
        "tests:\n"
        "  - name: a\n"
        "    format: [JSON, AVRO]\n"
        "    statements: ['{FORMAT}']\n"
        "    inputConditions: {waitForActivePushQuery: true}\n"
        "    outputConditions: {verifyOrder: true}\n"
        "    testPullWithProtoFormat: true\n",
        encoding="utf-8",
    )
    loaded = load(path)
    assert [case.statements for case in loaded.cases] == [("JSON",), ("AVRO",)]
    case = loaded.cases[0]
    assert isinstance(case, RestCase)
    assert (case.late_inputs, case.in_order, case.with_proto) == (True, True, True)


@pytest.mark.parametrize("member", [{"responses": [{"admin": {}}]}, {"expectedError": {"message": "x"}}])
def test_a_file_with_an_answer_holds_rest_cases(tmp_path: Path, member: Any) -> None:
    """Whatever it is called, and all of its cases."""
    plain = {"name": "plain", "statements": ["x"], "outputs": []}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"tests": [plain, {"name": "asks", "statements": ["x"], **member}]}))
    assert [type(case) for case in load(path).cases] == [RestCase, RestCase]
    path.write_text(json.dumps({"tests": [plain]}))
    assert [type(case) for case in load(path).cases] == [Case]
