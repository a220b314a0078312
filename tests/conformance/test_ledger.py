from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.known_gaps import GapKind, load_gaps
from kestrel_qtt.cases.model import Case, Result, Status
from tests.conformance.corpus_shards import complaints, sample, shards
from tests.conformance.ledger import GENERATED, main


def reported(name: str, status: str, reason: str = "") -> dict[str, Any]:
    return {"id": f"query-validation-tests/x.json::{name}", "status": status, "reason": reason}


def write(folder: Path, *cases: dict[str, Any]) -> list[str]:
    report = folder / "r.json"
    report.write_text(json.dumps({"cases": cases}), encoding="utf-8")
    return [str(report), str(folder / "known-gaps.yaml")]


def result(name: str, status: Status) -> Result:
    case = Case(id=f"query-validation-tests/x.json::{name}", file=Path("x.json"), line=1, name=name, statements=())
    return Result(case, status, 0.0, "why")


def test_lists_what_failed_without_a_word_of_the_case(tmp_path: Path) -> None:
    arguments = write(
        tmp_path,
        reported("a", "failed", "topic OUT: secret"),
        reported("b", "error", "KeyError: secret"),
        reported("c", "passed"),
    )
    assert main(arguments) == 0
    gaps = load_gaps(tmp_path / "known-gaps.yaml")
    assert [name.rpartition("::")[2] for name in gaps] == ["a", "b"]
    assert {gap.reason for gap in gaps.values()} <= GENERATED


def test_keeps_what_was_written_by_hand_until_the_case_passes(tmp_path: Path) -> None:
    main(write(tmp_path, reported("a", "failed"), reported("b", "failed"), reported("elsewhere", "failed")))
    ledger = tmp_path / "known-gaps.yaml"
    first = next(iter(load_gaps(ledger).values()))
    ledger.write_text(
        ledger.read_text(encoding="utf-8").replace(first.reason, "Java's hash order", 1), encoding="utf-8"
    )
    main(write(tmp_path, reported("a", "failed"), reported("b", "passed")))
    gaps = load_gaps(ledger)
    assert [name.rpartition("::")[2] for name in gaps] == ["a", "elsewhere"]
    assert next(iter(gaps.values())).reason == "Java's hash order"
    assert next(iter(gaps.values())).kind is GapKind.NOTIMPL


def test_a_run_with_the_ledger_leaves_it_as_it_is(tmp_path: Path) -> None:
    main(write(tmp_path, reported("a", "failed", "the query failed: x")))
    before = (tmp_path / "known-gaps.yaml").read_text(encoding="utf-8")
    main(write(tmp_path, reported("a", "skipped", "known gap, notimpl: the query fails")))
    assert (tmp_path / "known-gaps.yaml").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("name", "status", "count"),
    [("a", Status.PASSED, 1), ("a", Status.FAILED, 0), ("b", Status.ERROR, 1), ("b", Status.PASSED, 0)],
)
def test_is_strict_both_ways(tmp_path: Path, name: str, status: Status, count: int) -> None:
    main(write(tmp_path, reported("a", "failed")))
    assert len(list(complaints([result(name, status)], load_gaps(tmp_path / "known-gaps.yaml")))) == count


def test_shards_have_all_cases_and_are_named_for_their_files() -> None:
    cases = [result(str(at), Status.PASSED).case for at in range(5)]
    cut = shards(cases, 3)
    assert [(shard.name, len(shard.cases)) for shard in cut] == [("x to x", 1), ("x to x", 2), ("x to x", 2)]
    assert [case for shard in cut for case in shard.cases] == cases
    assert [len(shard.cases) for shard in shards([], 2)] == [0, 0]


def test_a_sample_has_cases_of_every_file_and_all_that_are_listed() -> None:
    cases = [result(str(at), Status.PASSED).case for at in range(40)]
    alone = replace(cases[0], id="query-validation-tests/y.json::a", file=Path("y.json"))
    chosen = sample([*cases, alone], (), 4)
    assert len(chosen) == 11
    assert alone in chosen
    left = next(case for case in cases if case not in chosen)
    assert sample([*cases, alone], {left.id}, 4) == [case for case in [*cases, alone] if case in [*chosen, left]]
