from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.decode import matching_of
from kestrel_qtt.cases.model import (
    ActualRecord,
    Case,
    CaseFileError,
    InputRecord,
    Matching,
    OutputRecord,
    Produced,
    Rejected,
)
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.load import load
from kestrel_qtt.plans.spec import case_document

SCRIPT = """-- two statements
CREATE STREAM ORDERS (ID INT KEY, ITEM STRING, PAID BOOLEAN) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM PAID AS SELECT ID, ITEM FROM ORDERS WHERE ${CONDITION};
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "app.sql").write_text(SCRIPT)
    (tmp_path / "tests").mkdir()
    return tmp_path / "tests"


def write(folder: Path, **members: Any) -> Path:
    path = folder / "x.json"
    given = {"name": "a", "statements": {"file": "../app.sql"}, "outputs": [], **members}
    path.write_text(json.dumps({"tests": [given]}, indent=1))
    return path


def one(path: Path) -> Case:
    loaded = load(path)
    assert loaded.errors == ()
    return loaded.cases[0]


def problem(path: Path) -> CaseFileError:
    (error,) = load(path).errors
    return error


def test_a_case_runs_the_script_of_the_application(folder: Path) -> None:
    case = one(write(folder, variables={"CONDITION": "PAID"}))
    assert case.statements == (SCRIPT,)
    assert case.script == folder.parent / "app.sql"
    run = prepare(case)
    assert run.outcome is None
    assert [query.id for query in run.pending] == ["CSAS_PAID_0"]
    assert case_document(case)["variables"] == {"CONDITION": "PAID"}


@pytest.mark.parametrize(
    ("text", "place", "shown"),
    [
        (SCRIPT.replace("WHERE", "WERE"), ":3:56", "WERE"),
        (SCRIPT.replace("SELECT ID", "SELECT IT"), ":3:30", "did you mean ITEM?"),
    ],
)
def test_a_mistake_is_shown_at_its_place_in_the_script(folder: Path, text: str, place: str, shown: str) -> None:
    script = folder.parent / "app.sql"
    script.write_text(text)
    case = one(write(folder, variables={"CONDITION": "PAID"}))
    outcome = prepare(case).outcome
    assert isinstance(outcome, Rejected)
    assert outcome.place.startswith(f"  at {script}{place}\n    CREATE STREAM PAID")
    assert "^" in outcome.place
    reason = judge(case, outcome).reason
    assert outcome.place in reason
    assert shown in reason


def test_a_script_that_is_not_there(folder: Path) -> None:
    error = problem(write(folder, statements={"file": "../ap.sql"}))
    assert f"there is no file {folder.parent / 'ap.sql'}; did you mean `app.sql`?" in error.message
    assert (folder / "x.json").read_text().splitlines()[error.line - 1].strip() == '"file": "../ap.sql"'
    (folder.parent / "app.sql").write_text("\n")
    assert "the script is empty" in str(problem(write(folder)))
    assert (
        "statements: `fil` is not a field; did you mean `file`?"
        in problem(write(folder, statements={"fil": "a"})).message
    )


def test_inputs_from_files(folder: Path) -> None:
    (folder / "orders.jsonl").write_text(
        '{"key": 1, "value": {"A": 1.50}}\n\n{"topic": "t", "value": null, "timestamp": 7}\n'
    )
    (folder / "more.csv").write_text('ID,"ITEM",ROWTIME,ROWPARTITION\n7,"a, ""b""\nc",5,\n8,,6,1\n')
    inline = {"topic": "orders", "value": 1}
    case = one(write(folder, inputs=[{"file": "orders.jsonl"}, inline, {"file": "more.csv", "topic": "orders"}]))
    assert tuple(replace(record, file=None, line=None) for record in case.inputs) == (
        InputRecord(topic="orders", key=1, value={"A": Decimal("1.50")}),
        InputRecord(topic="t", timestamp=7),
        InputRecord(topic="orders", value=1),
        InputRecord(topic="orders", timestamp=5, cells={"ID": "7", "ITEM": 'a, "b"\nc'}),
        InputRecord(topic="orders", timestamp=6, partition=1, cells={"ID": "8", "ITEM": None}),
    )
    places = [(record.file and record.file.name, record.line) for record in case.inputs]
    assert places == [("orders.jsonl", 1), ("orders.jsonl", 3), (None, places[2][1]), ("more.csv", 2), ("more.csv", 4)]
    assert one(write(folder, inputs={"file": "orders.jsonl"})).inputs == case.inputs[:2]


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("a.jsonl", '{"value": 1}\n{"value": }\n', 2, "this line is not JSON: expecting value"),
        ("a.jsonl", "[1]\n", 1, "a record is an object"),
        ("a.jsonl", '{"key": 1}\n', 1, "no `value`"),
        ("a.csv", "A,B\n1,2\n1\n", 3, "1 cells in a row, but 2 in the header"),
        ("a.csv", "A,A\n", 1, "names the column 'A' twice"),
        ("a.csv", "", 1, "no header"),
        ("a.csv", 'A\n"1\n', 2, "this row is not CSV"),
        ("a.csv", "A,ROWTIME\n1,noon\n", 2, "expected a whole number for ROWTIME, got 'noon'"),
    ],
)
def test_a_bad_line_of_inputs_is_named(folder: Path, name: str, text: str, line: int, message: str) -> None:
    (folder / name).write_text(text)
    error = problem(write(folder, inputs={"file": name}))
    assert (error.file, error.line) == (folder / name, line)
    assert message in error.message


def test_a_file_of_another_kind(folder: Path) -> None:
    (folder / "a.txt").touch()
    assert "inputs are .jsonl or .csv files" in problem(write(folder, inputs={"file": "a.txt"})).message


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ("x,tea,true", "more.csv:2: expected a value of type INTEGER for ID, got 'x'"),
        ("1,tea,yes", "more.csv:2: expected true or false for PAID, got 'yes'"),
    ],
)
def test_a_field_that_does_not_fit_its_column(folder: Path, row: str, part: str) -> None:
    (folder / "more.csv").write_text(f"ID,item,PAID\n{row}\n")
    case = one(write(folder, variables={"CONDITION": "PAID"}, inputs={"file": "more.csv", "topic": "orders"}))
    assert part in str(prepare(case).outcome)


def test_fields_become_values_of_their_columns(folder: Path) -> None:
    (folder / "orders.csv").write_text("ID,item,PAID\n7,007,true\n8,,\n")
    run = prepare(one(write(folder, variables={"CONDITION": "PAID"}, inputs={"file": "orders.csv"})))
    assert [(record.key, record.value) for record in run.inputs] == [
        (b"\x00\x00\x00\x07", b'{"ITEM":"007","PAID":true}'),
        (b"\x00\x00\x00\x08", b'{"ITEM":null,"PAID":null}'),
    ]


def test_a_column_or_topic_that_is_not_there(folder: Path) -> None:
    (folder / "order.csv").write_text("ID,IITEM\n7,a\n")
    case = one(write(folder, variables={"CONDITION": "PAID"}, inputs={"file": "order.csv"}))
    assert "no stream or table has the topic order\n  hint: did you mean orders?" in str(prepare(case).outcome.message)  # type: ignore[union-attr]
    case = replace(case, inputs=(replace(case.inputs[0], topic="orders"),))
    assert "IITEM is not a column of ORDERS\n  hint: did you mean ITEM?" in prepare(case).outcome.message  # type: ignore[union-attr]


OUT = OutputRecord(topic="OUT", key=1, value={"A": Decimal("1.0"), "AT": 5}, timestamp=3, line=7)
WROTE = ActualRecord(key=1, value={"A": Decimal("1.0"), "AT": 5}, timestamp=3)


def verdict(outputs: list[OutputRecord], wrote: list[ActualRecord], **members: Any) -> str:
    case = Case(
        id="x::n",
        file=Path("x"),
        line=1,
        name="n",
        statements=("A",),
        inputs=(InputRecord(topic="IN"),),
        outputs=tuple(outputs),
        matching=matching_of(members),
    )
    return judge(case, Produced({"OUT": tuple(wrote)})).reason


def test_columns_that_are_ignored() -> None:
    other = replace(WROTE, value={"A": Decimal("1.0"), "AT": 6}, timestamp=4)
    assert verdict([OUT], [other], ignore=["value.AT", "timestamp"]) == ""
    without = replace(OUT, value={"A": Decimal("1.0")})
    assert verdict([without], [WROTE], ignore=["value.AT"]) == ""
    reason = verdict([OUT], [other], ignore=["value.AT"])
    assert "topic OUT: differs (compared without value.AT)" in reason
    assert "timestamp" in reason
    assert "value.A " not in reason
    assert Matching(ignore=("value.ITEMS.PRICE",)).ignores("value.ITEMS[3].PRICE")
    assert not Matching(ignore=("value.A",)).ignores("value.AT")


def test_outputs_in_any_order_of_keys() -> None:
    two, wrote_two = replace(OUT, key=2), replace(WROTE, key=2)
    later, wrote_later = replace(OUT, value=None), replace(WROTE, value=None)
    assert verdict([OUT, later, two], [wrote_two, WROTE, wrote_later], unordered=True) == ""
    assert "order differs" in verdict([OUT, later, two], [wrote_two, wrote_later, WROTE], unordered=True)
    assert "order differs" in verdict([OUT, two], [wrote_two, WROTE])


@pytest.mark.parametrize(
    ("expected", "actual", "passes"),
    [
        (Decimal("1.0"), Decimal("1.009"), True),
        (Decimal("1.0"), 1.009, True),
        (1, 1.009, True),
        (Decimal("2.5"), 1, False),
        (1, 2, False),
        (Decimal("1.0"), Decimal("1.011"), False),
        (Decimal("1.0"), float("nan"), False),
        (Decimal("1.0"), "1.0", False),
    ],
)
def test_a_tolerance_for_fractions(expected: Any, actual: Any, passes: bool) -> None:
    out, wrote = replace(OUT, value={"A": expected}), replace(WROTE, value={"A": actual})
    assert (verdict([out], [wrote], tolerance=Decimal("0.01")) == "") == passes


def test_one_missing_record_is_one_difference() -> None:
    records = [(replace(OUT, key=key), replace(WROTE, key=key)) for key in range(4)]
    reason = verdict([out for out, _ in records], [wrote for _, wrote in records[1:]])
    assert "4 records expected, 3 written" in reason
    assert "topic OUT, record 0 (x:7) is missing:\n  key        0 (integer)" in reason
    assert "record 1" not in reason


def test_the_input_that_caused_a_record_is_named() -> None:
    cause = InputRecord(topic="IN", file=Path("in.jsonl"), line=4)
    reason = verdict([OUT], [replace(WROTE, key=2, cause=cause)])
    assert "caused by the input of topic IN in in.jsonl:4" in reason
    reason = verdict([], [replace(WROTE, cause=replace(cause, file=None))])
    assert "OUT: no records expected" in reason
