"""Mutation testing: the changes of a statement, and the mutants that cases kill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kestrel_qtt.cases.model import ActualRecord, Case, Outcome, Produced
from kestrel_qtt.cli.main import main
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.drivers.records.prepare import plan_text
from kestrel_qtt.variants.mutation import mutants_of, mutate
from kestrel_qtt.variants.pruning import unreached
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.parse.parser import parse_script

SOURCE = "CREATE STREAM S (K STRING KEY, A INT, B STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"


def diffs(statement: str) -> list[str]:
    return [mutant.diff.replace("\n", " ") for mutant in mutants_of(parse_script(statement), FUNCTIONS)]


@pytest.mark.parametrize(
    ("select", "changed"),
    [
        ("SELECT K, A FROM S WHERE A >= 1", ["WHERE (A > 1)", "WHERE (A < 1)", "WHERE (A >= 2)", "- WHERE (A >= 1)"]),
        ("SELECT K, A + 1 AS C FROM S", ["(A - 1) C", "(A + 2) C"]),
        ("SELECT K, A FROM S WHERE A = 1 AND B IS NULL", ["((A = 1) OR (B IS NULL))", "WHERE (B IS NULL)"]),
        ("SELECT K, A FROM S WHERE A BETWEEN 1 AND 3", ["((A > 1) AND (A <= 3))", "((A >= 1) AND (A < 3))"]),
        ("SELECT K, CASE WHEN A > 1 THEN 'x' ELSE 'y' END AS C FROM S", ["THEN 'x' END)", "THEN '' ELSE 'y' END)"]),
        ("SELECT K, UCASE(B) AS C FROM S", ["LCASE(B) C", "+ B C"]),
        ("SELECT K, A FROM S WHERE A IN (1, 5)", ["(A IN (5))", "(A IN (1))"]),
        ("SELECT K, A FROM S WHERE B LIKE 'a%'", ["(NOT (B LIKE 'a%'))"]),
        ("SELECT K, 1.50 * A AS C FROM S", ["(1.51 * A) C"]),
        ("SELECT K, A FROM S PARTITION BY A", ["- PARTITION BY A"]),
    ],
)
def test_a_stream_is_changed(select: str, changed: list[str]) -> None:
    found = diffs(f"CREATE STREAM O AS {select};")
    assert [each for each in changed if not any(each in diff for diff in found)] == []


@pytest.mark.parametrize(
    ("select", "changed"),
    [
        ("SELECT K, MIN(A) AS C FROM S GROUP BY K HAVING COUNT(*) > 1", ["MAX(A) C", "- HAVING (COUNT(*) > 1)"]),
        (
            "SELECT K, COUNT(*) AS C FROM S WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY K",
            [
                "SIZE 11 SECONDS",
                "SIZE 9 SECONDS",
                "GRACE PERIOD 2 SECONDS",
                "+ WINDOW TUMBLING ( SIZE 10 SECONDS )",
                "EMIT FINAL",
            ],
        ),
        ("SELECT K, B, COUNT(*) AS C FROM S GROUP BY K, B", ["+ GROUP BY K", "+ GROUP BY B"]),
    ],
)
def test_a_table_is_changed(select: str, changed: list[str]) -> None:
    found = diffs(f"CREATE TABLE O AS {select};")
    assert [each for each in changed if not any(each in diff for diff in found)] == []


def test_a_join_is_changed_and_its_condition_is_not() -> None:
    found = diffs("CREATE STREAM O AS SELECT S.K, A, C FROM S LEFT JOIN T WITHIN 5 SECONDS ON S.K = T.K;")
    assert any("INNER JOIN T" in diff for diff in found)
    assert any("WITHIN (6 SECONDS, 5 SECONDS)" in diff for diff in found)
    assert not any("<>" in diff for diff in found)


def test_other_statements_stay_and_the_position_is_that_of_the_script() -> None:
    text = f"{SOURCE}\nCREATE STREAM O AS\n  SELECT K FROM S\n  WHERE A > 1;"
    mutant = next(each for each in mutants_of(parse_script(text), FUNCTIONS) if ">=" in each.diff)
    assert (mutant.span.line, mutant.span.column) == (4, 9)
    assert (mutant.piece, mutant.text) == (1, "CREATE STREAM O AS SELECT K\nFROM S S\nWHERE (A >= 1);")


def test_variables_are_replaced_before_the_change() -> None:
    text = "CREATE STREAM O AS SELECT K FROM S WHERE A > ${LIMIT};"
    found = mutants_of(parse_script(text, {"LIMIT": "7"}), FUNCTIONS)
    assert any("(A > 8)" in mutant.diff for mutant in found)


@pytest.mark.parametrize(
    ("changed", "gone", "topics"),
    [
        (2, {3, 4, 5, 6}, {"C", "d", "E"}),
        (3, {2, 6}, {"B", "E"}),
        (4, {2, 6}, {"B", "E"}),
        (5, {2, 6}, {"B", "E"}),
        (6, {2, 3, 4, 5}, {"B", "C", "d"}),
    ],
)
def test_queries_that_a_change_cannot_reach_are_left_out(changed: int, gone: set[int], topics: set[str]) -> None:
    text = f"""{SOURCE}
        CREATE TYPE T AS STRUCT<A INT>;
        CREATE STREAM B AS SELECT * FROM S;
        CREATE STREAM C AS SELECT * FROM S WHERE A > 1;
        INSERT INTO C SELECT * FROM S WHERE A < 0;
        CREATE STREAM D WITH (KAFKA_TOPIC='d') AS SELECT * FROM C;
        CREATE STREAM E AS SELECT * FROM S;"""
    assert unreached(parse_script(text), changed) == (gone, topics)
    assert unreached(parse_script(f"{text} DROP STREAM E;"), changed) == (set(), set())


class Notices:
    """A driver whose outputs differ from the original's in the cases called `noticed` only; it counts its runs."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    def run(self, cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
        self.runs.append(len(cases))
        for case in cases:
            is_wrong = case.name == "noticed" and "A >= 1;" not in case.statements[-1]
            yield case, Produced({"O": (ActualRecord(value=1),)} if is_wrong else {}), 0.0

    def plan_documents(self, case: Case) -> str:
        return plan_text(case)

    def explain(self, case: Case) -> str:
        raise NotImplementedError

    def close(self) -> None:
        pass


def test_each_round_runs_twice_as_many_cases() -> None:
    statements = (SOURCE, "CREATE STREAM O AS SELECT K, A FROM S WHERE A >= 1;")

    def case(number: int, name: str) -> Case:
        return Case(id=f"x::{number}", file=Path("x"), line=number, name=name, statements=statements, outputs=())

    driver = Notices()
    given = [case(number, "noticed" if number == 5 else "other") for number in range(9)]
    result = mutate(given, driver, lambda file, text: True, lambda line: None)
    count = len(result.tried)
    assert (count > 3, result.score) == (True, 1.0)
    assert {each.killed_by for each in result.tried} == {"x::5"}
    assert driver.runs == [9, count, 2 * count, 4 * count]


CASES = """\
tests:
  - name: small ones are left out
    statements: {file: ../app.sql}
    inputs:
      - {topic: s, key: a, value: {A: 9, B: x}}
      - {topic: s, key: b, value: {A: 11, B: x}}
    outputs:
      - {topic: O, key: b, value: {A: 11}}
"""
BOUND = """\
  - name: the bound belongs to the large ones
    statements: {file: ../app.sql}
    inputs:
      - {topic: s, key: a, value: {A: 10, B: x}}
    outputs:
      - {topic: O, key: a, value: {A: 10}}
"""


def test_a_case_for_the_bound_kills_the_mutants_that_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.sql").write_text(
        f"{SOURCE}\nCREATE STREAM O AS SELECT K, A FROM S\nWHERE A >= 10;\n", encoding="utf-8"
    )
    (tmp_path / "tests").mkdir()
    cases = tmp_path / "tests" / "a.yaml"
    cases.write_text(CASES, encoding="utf-8")
    assert main(["mutate", "app.sql"]) == 1
    said = capsys.readouterr().out
    assert "app.sql:3:7: survives 1 case\n    - WHERE (A >= 10)\n    + WHERE (A > 10)\n" in said
    cases.write_text(CASES + BOUND, encoding="utf-8")
    assert main(["mutate", "app.sql", "--json", "report.json"]) == 0
    assert "0 survived; score 100 %" in capsys.readouterr().out
    assert '"killed_by": "tests/a.yaml::the-bound-belongs-to-the-large-ones' in (tmp_path / "report.json").read_text()


def test_a_script_without_cases_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.sql").write_text(SOURCE, encoding="utf-8")
    assert main(["mutate", "app.sql"]) == 2
    assert "a case does so with `statements: {file: app.sql}`" in " ".join(capsys.readouterr().err.split())
