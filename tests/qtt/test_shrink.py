"""Shrinking: a failing case becomes small while it fails for the same reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import (
    Case,
    Failed,
    FormatInfo,
    InputRecord,
    Outcome,
    OutputRecord,
    Produced,
    SourceState,
    TopicState,
)
from kestrel_qtt.cases.read_yaml import parse_yaml
from kestrel_qtt.cli.case_text import case_text
from kestrel_qtt.cli.main import main
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.load import load
from kestrel_qtt.variants.reductions import Draft
from kestrel_qtt.variants.shrink import ShrinkError, shrink

SOURCE = (
    "CREATE STREAM S (K STRING KEY, A INT, B STRING, C INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
)
QUERY = "CREATE STREAM O AS SELECT K, UCASE(B) AS B, A + C AS D FROM S WHERE A > 0 AND C < 100;"
OTHER = "CREATE STREAM P AS SELECT K, A FROM S;"


class Fails:
    """A driver whose queries fail where UCASE meets the string `bad`; it counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
        self.runs += 1
        for case in cases:
            has_call = all(any(part in each for each in case.statements) for part in ("UCASE(B)", "STREAM S"))
            bad = any(isinstance(record.value, dict) and record.value.get("B") == "bad" for record in case.inputs)
            yield case, Failed(f"it failed at {len(case.inputs)}") if has_call and bad else Produced({}), 0.0

    def close(self) -> None:
        pass


def case_of(*records: InputRecord) -> Case:
    return Case(
        id="x::y", file=Path("x.yaml"), line=1, name="y", statements=(SOURCE, QUERY, OTHER), inputs=records, outputs=()
    )


def records(count: int) -> list[InputRecord]:
    return [InputRecord(topic="s", key=str(n), value={"A": n, "B": "good", "C": n}, timestamp=n) for n in range(count)]


def test_only_what_the_failure_needs_is_left() -> None:
    given = records(40)
    given[17] = InputRecord(topic="s", key="17", value={"A": 5, "B": "bad", "C": 7}, timestamp=17)
    driver = Fails()
    small, reason = shrink(case_of(*given), driver, lambda _: None)
    assert reason.text == "it failed at 40"
    assert [(record.key, record.value) for record in small.inputs] == [("17", {"B": "bad"})]
    assert [each.partition(" WITH")[0] for each in small.statements] == [
        "CREATE STREAM S (B STRING)",
        "CREATE STREAM O AS SELECT UCASE(B) B FROM S S;",
    ]
    assert driver.runs < 20


def test_values_of_one_record_become_small_in_one_round() -> None:
    given = InputRecord(topic="s", key="17", value={"B": "bad", **{f"N{n}": 100 + n for n in range(20)}}, timestamp=17)
    driver = Fails()
    small, _ = shrink(case_of(given), driver, lambda _: None)
    assert small.inputs[0].value == {"B": "bad", **{f"N{n}": 0 for n in range(20)}}
    assert driver.runs < 15


def test_nothing_runs_twice_without_success() -> None:
    class Never(Fails):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[object] = []

        def run(self, cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
            self.seen += [(case.statements, repr(case.inputs)) for case in cases]
            for number, case in enumerate(cases):
                yield case, Produced({}) if self.runs or number else Failed("it failed"), 0.0
            self.runs += 1

    driver = Never()
    small, _ = shrink(case_of(*records(5)), driver, lambda _: None)
    assert len(small.inputs) == 5
    assert (len(driver.seen), len(set(map(str, driver.seen)))) == (len(driver.seen),) * 2


class Loses:
    """A driver whose query O writes no record, as long as there is one."""

    def run(self, cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
        for case in cases:
            formats = FormatInfo(format="KAFKA"), FormatInfo(format="JSON")
            has_query = any("STREAM O" in statement for statement in case.statements)
            topics = (TopicState(name="O", key_format=formats[0], value_format=formats[1]),) if has_query else ()
            columns = frozenset(name for name in ("B", "D") if any(f" {name}" in text for text in case.statements[1:]))
            source = SourceState(
                name="O",
                kind="stream",
                schema="",
                key_format="KAFKA",
                value_format="JSON",
                topic="O",
                value_columns=columns,
            )
            yield case, Produced({}, topics=topics, sources=(source,)), 0.0

    def close(self) -> None:
        pass


def test_a_record_that_is_missing_from_an_empty_topic() -> None:
    missing = OutputRecord(topic="O", key="1", value={"B": "good", "D": 2}, timestamp=1)
    case = replace(case_of(*records(5)), outputs=(missing,))
    small, reason = shrink(case, Loses(), lambda _: None)
    assert reason.text == "a record of O is missing"
    assert [record.timestamp for record in small.inputs] == [1], "the input of the same time stays"
    assert [each for each in small.statements if "STREAM P" in each] == []
    assert any("STREAM O" in each for each in small.statements)
    assert small.outputs == (replace(missing, value={}),), "without the columns that O has lost"


def test_a_statement_of_several_lines_stays_readable(tmp_path: Path) -> None:
    statements = ["CREATE STREAM S\n  (A INT);", "SELECT 'x: y'\n\n  # no comment", "\tX\nY", "X\n", "SELECT 1;"]
    text = case_text({"name": "lines", "statements": statements, "outputs": []})
    file = tmp_path / "a.yaml"
    file.write_text(text)
    (case,) = load(file).cases
    assert case.statements == tuple(statements)
    assert "      - |-\n        CREATE STREAM S\n          (A INT);\n" in text


def test_characters_that_yaml_does_not_read_are_escaped() -> None:
    document = {
        "name": "breaks",
        "statements": ["A\u2028B", "A"],
        "inputs": [{"value": {"\u2028": "\x85\ufeff"}}],
    }
    assert parse_yaml(case_text(document)).value == {"tests": [document]}


def test_a_case_that_passes_is_not_shrunk() -> None:
    with pytest.raises(ShrinkError, match="the case passes"):
        shrink(case_of(*records(2)), Fails(), lambda _: None)


def test_a_draft_gives_the_case_back() -> None:
    case = case_of(*records(3))
    assert Draft.of(case).to_case(case.id) == case


PLANTED = f"""\
tests:
  - name: planted
    statements:
      - {SOURCE}
      - {QUERY}
      - {OTHER}
    inputs:
      - {{topic: s, key: a, value: {{A: 1, B: x, C: 1}}, timestamp: 1}}
      - {{topic: s, key: b, value: {{A: 2, B: y, C: 1}}, timestamp: 2}}
      - {{topic: s, key: c, value: {{A: 3, B: z, C: 1}}, timestamp: 3}}
    outputs:
      - {{topic: O, key: a, value: {{B: X, D: 2}}, timestamp: 1}}
      - {{topic: O, key: b, value: {{B: Y, D: 4}}, timestamp: 2}}
      - {{topic: O, key: c, value: {{B: Z, D: 4}}, timestamp: 3}}
      - {{topic: P, key: a, value: {{A: 1}}, timestamp: 1}}
      - {{topic: P, key: b, value: {{A: 2}}, timestamp: 2}}
      - {{topic: P, key: c, value: {{A: 3}}, timestamp: 3}}
"""


def test_a_wrong_expectation_is_left_alone_with_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(PLANTED, encoding="utf-8")
    small = tmp_path / "small.yaml"
    assert main(["shrink", f"{tmp_path / 'a.yaml'}::planted", "--write", str(small)]) == 0
    assert "value.D of a record of O is 3, expected 4" in capsys.readouterr().err
    [case] = load(small).cases
    assert [record.value for record in case.inputs] == [{"A": 2, "C": 1}]
    assert [(record.topic, record.value) for record in case.outputs or ()] == [("O", {"D": 4})]
    assert len(case.statements) == 2
    assert "WHERE" not in case.statements[1]


def test_one_case_has_to_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(PLANTED + PLANTED.replace("tests:\n", "").replace("planted", "second"), encoding="utf-8")
    assert main(["shrink", str(file)]) == 2
    assert "takes one case, and 2 are selected" in " ".join(capsys.readouterr().err.split())
    file.write_text(PLANTED, encoding="utf-8")
    assert main(["shrink", str(file), "--write", str(file)]) == 2
    assert "exists; --write takes the name of a new file" in " ".join(capsys.readouterr().err.split())
