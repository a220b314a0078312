from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from kestrel_qtt.cases import known_gaps as gaps
from kestrel_qtt.cases.discovery import CaseFile, Kind
from kestrel_qtt.cases.known_gaps import GapKind, ledger_of, load_gaps
from kestrel_qtt.cases.model import Case, CaseFileError, InputRecord, Outcome, OutputRecord, Result, Status
from kestrel_qtt.cases.selection import Selection, SelectionError, parse_shard
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.report.text import failure_text, gap_text, summarise, watched, write_report
from kestrel_qtt.runner import run_cases


def make(name: str, statement: str = "COPY", value: Any = 1) -> Case:
    out = OutputRecord(topic="OUT", value=value)
    inputs = (InputRecord(topic="IN", value=1),)
    return Case(
        id=f"f.json::{name}",
        file=Path("f.json"),
        line=1,
        name=f"f - {name}",
        statements=(statement,),
        inputs=inputs,
        outputs=(out,),
    )


def test_groups(fake: Any) -> None:
    cases = [make(str(n)) for n in range(5)]
    results = list(run_cases(cases, fake, RunOptions(cut="each", group_size=2)))
    assert [r.case for r in results] == cases
    assert {r.status for r in results} == {Status.PASSED}
    assert [len(group) for group in fake.groups] == [2, 2, 1]
    assert fake.options[0].cut == "each"


def test_groups_side_by_side_keep_their_order(fake: Any) -> None:
    together = Barrier(2, timeout=10)
    alone = fake.run

    def run(cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
        together.wait()
        yield from alone(cases, options)

    fake.run = run
    cases = [make(name) for name in "abcd"]
    results = list(run_cases(cases, fake, RunOptions(group_size=2, jobs=2)))
    assert [(r.case.name, r.status) for r in results] == [(f"f - {name}", Status.PASSED) for name in "abcd"]


def test_groups_of_a_driver_that_needs_nothing_but_python_run_in_processes(fake: Any) -> None:
    fake.can_fork = True
    cases = [make("a"), make("b", "CRASH"), make("c", "FAIL x"), make("d")]
    results = list(run_cases(cases, fake, RunOptions(group_size=1, jobs=2)))
    passed, error, failed = Status.PASSED, Status.ERROR, Status.FAILED
    assert [(r.case.name[-1], r.status) for r in results] == [
        *zip("abcd", (passed, error, failed, passed), strict=True)
    ]
    assert fake.groups == []


@pytest.mark.parametrize(("cases", "sizes"), [(50, [50]), (130, [65, 65]), (250, [100, 100, 50])])
def test_every_job_has_a_group_unless_there_are_few_cases(fake: Any, cases: int, sizes: list[int]) -> None:
    list(run_cases([make(str(n)) for n in range(cases)], fake, RunOptions(group_size=100, jobs=2)))
    assert sorted((len(group) for group in fake.groups), reverse=True) == sizes


def test_wrong_expectation_fails(fake: Any) -> None:
    (result,) = run_cases([make("a", value=2)], fake, RunOptions())
    assert result.status is Status.FAILED


def test_broken_driver_costs_its_group_only(fake: Any) -> None:
    cases = [make("a"), make("b", "CRASH"), make("c"), make("d"), make("e", "FORGET")]
    results = {r.case.name: r for r in run_cases(cases, fake, RunOptions(group_size=3))}
    assert [results[f"f - {n}"].status for n in "abcde"] == [
        Status.PASSED,
        Status.ERROR,
        Status.ERROR,
        Status.PASSED,
        Status.ERROR,
    ]
    assert "engine broke" in results["f - b"].reason
    assert "no outcome" in results["f - e"].reason


LEDGER = """
- case: test-cases/a.json::one
  reason: not mapped yet
  kind: notimpl
"""


def test_ledger(tmp_path: Path) -> None:
    folder = tmp_path / "test-cases"
    (folder / "area").mkdir(parents=True)
    path = folder / "known-gaps.yaml"
    path.write_text(LEDGER)
    ledger = load_gaps(path)
    gap = ledger["test-cases/a.json::one"]
    assert (gap.reason, gap.kind, gap.line) == ("not mapped yet", GapKind.NOTIMPL, 2)
    assert ledger_of(CaseFile(folder / "area" / "x.json", Kind.CASES, tmp_path)) == path
    assert ledger_of(CaseFile(tmp_path / "x.json", Kind.CASES, tmp_path)) is None


def test_a_ledger_above_the_root_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "known-gaps.yaml").write_text(LEDGER)
    root = tmp_path / "project"
    assert ledger_of(CaseFile(root / "x.json", Kind.CASES, root)) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: 1", "a list"),
        ("- case: x", "exactly the members"),
        ("- {case: x, reason: '', kind: never}", "must be texts"),
        ("- {case: x, reason: y, kind: later}", "notimpl, notyet, never"),
        ("- {case: x, reason: y, kind: never}\n- {case: x, reason: y, kind: never}", "listed twice"),
        ("- [", "g.yaml"),
    ],
)
def test_bad_ledger(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "g.yaml").write_text(text)
    with pytest.raises(CaseFileError, match=part):
        load_gaps(tmp_path / "g.yaml")


def test_empty_ledger(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("# nothing\n")
    assert load_gaps(tmp_path / "g.yaml") == {}


def test_gaps_are_strict(tmp_path: Path, fake: Any) -> None:
    path = tmp_path / "g.yaml"
    path.write_text("\n".join(f"- {{case: 'f.json::{n}', reason: r, kind: never}}" for n in "abc"))
    cases = [make("a"), make("b", value=2), make("c", "CRASH")]
    options = RunOptions(group_size=1)
    results = list(run_cases(cases, fake, options, gaps=load_gaps(path)))
    assert [r.status for r in results] == [Status.FAILED, Status.SKIPPED, Status.ERROR]
    assert "remove the entry" in results[0].reason
    assert "never: r" in results[1].reason
    assert gaps.apply({}, results[0]) is results[0]


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("left", ["left join", "left right"]),
        ("LEFT and not right", ["left join"]),
        ("join or right", ["left join", "left right"]),
        ("not (join or right)", ["plain"]),
        ("'left join'", ["left join"]),
        ("left and right or plain", ["left right", "plain"]),
    ],
)
def test_expressions(expression: str, chosen: list[str]) -> None:
    cases = [make(name) for name in ("left join", "left right", "plain")]
    assert [c.name.removeprefix("f - ") for c in Selection(expression).of(cases)] == chosen


@pytest.mark.parametrize("expression", ["and", "a and", "(a", "a b", "not", ")"])
def test_bad_expressions(expression: str) -> None:
    with pytest.raises(SelectionError):
        Selection(expression).of([make("a")])


def test_shards_partition_the_cases() -> None:
    cases = [make(str(n)) for n in range(10)]
    shards = [Selection(shard=f"{i}/3").of(cases) for i in (1, 2, 3)]
    assert sorted(c.id for shard in shards for c in shard) == sorted(c.id for c in cases)
    assert [len(s) for s in shards] == [4, 3, 3]
    for text in ("0/3", "4/3", "1", "a/b"):
        with pytest.raises(SelectionError):
            parse_shard(text)


def test_every_nth_case_of_each_file_leaves_no_file_out() -> None:
    cases = [replace(make(f"{file}{n}"), file=Path(file)) for n in range(7) for file in ("a", "b")] + [
        replace(make("c0"), file=Path("c"))
    ]
    chosen = [case.name.removeprefix("f - ") for case in Selection(every=3).of(cases)]
    assert chosen == ["a0", "b0", "a3", "b3", "a6", "b6", "c0"]
    assert Selection(every=1).of(cases) == cases


def test_report(tmp_path: Path) -> None:
    results = [
        Result(make("a"), Status.PASSED, 0.5, carrier="process"),
        Result(make("b"), Status.FAILED, 0.25, "no\nno", carrier="spark"),
    ]
    summary = summarise(results, 2.0)
    assert str(summary) == "1 passed, 1 failed in 2.0 s (1 cases a second) on process (1) and spark (1)"
    assert str(summarise(results[:1], 2.0)) == "1 passed in 2.0 s (0.5 cases a second) on process"
    assert not summary.is_success
    assert not summarise([Result(make("a"), Status.ERROR)], 1).is_success
    gap = Result(make("a"), Status.SKIPPED, reason="known gap, notyet: no")
    assert summarise([gap], 1).is_success
    assert str(summarise([gap], 1.0)) == "0 passed, 1 known gap in 1.0 s (1 cases a second)"
    assert gap_text(gap) == "f.json::a: known gap, notyet: no"
    write_report(tmp_path / "deep" / "r.json", results, summary)
    report = json.loads((tmp_path / "deep" / "r.json").read_text())
    assert report["summary"] == {
        "passed": 1,
        "failed": 1,
        "errors": 0,
        "skipped": 0,
        "seconds": 2.0,
        "cases_per_second": 1.0,
        "carriers": {"process": 1, "spark": 1},
    }
    assert report["cases"][1] == {
        "id": "f.json::b",
        "file": "f.json",
        "name": "f - b",
        "format": None,
        "rules": [],
        "status": "failed",
        "seconds": 0.25,
        "reason": "no\nno",
        "carrier": "spark",
    }
    assert failure_text(results[1]) == "FAILED f.json::b\n  f.json:1: f - b\n  no\n  no"


def test_a_failure_names_the_rules_that_the_case_proves() -> None:
    case = replace(make("b"), rules=("L4.6.2", "O1.1"))
    assert "f.json:1: f - b (rules L4.6.2, O1.1)\n" in failure_text(Result(case, Status.FAILED, reason="no"))


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_passes_results_through(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrel_qtt.report.text._LINE_EVERY", 0.0)
    monkeypatch.setattr("kestrel_qtt.report.text._TOGETHER", 0.0)
    stream = io.StringIO()
    results = [Result(make(str(n)), Status.PASSED) for n in range(3)]
    assert list(watched(iter(results), 3, Console(file=stream, force_terminal=terminal, width=100))) == results
    assert "2/3" in stream.getvalue() or terminal
    assert "a second" in stream.getvalue()


def test_a_terminal_shows_that_the_first_cases_run() -> None:
    stream = io.StringIO()
    results = watched(iter([Result(make("a"), Status.PASSED)]), 1, Console(file=stream, force_terminal=True, width=100))

    def shown() -> Iterator[str]:
        for _ in results:
            yield stream.getvalue()

    assert "the first ones run" in next(shown())


def test_a_progress_bar_takes_nothing_from_a_standard_output_that_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    results = iter([Result(make("a"), Status.PASSED)])
    for _ in watched(results, 1, Console(file=stream, force_terminal=True, width=100)):
        sys.stdout.write("data\n")
    assert capsys.readouterr().out == "data\n"
    assert "data" not in stream.getvalue()
