"""The list of mistakes fits the code: each edit has its place and its test. `make mistakes` makes them every night."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mistakes import ROOT, Mistake, is_noticed, mistakes


def name(mistake: Mistake) -> str:
    return mistake.mistake.replace(" ", "-")


@pytest.mark.parametrize("mistake", mistakes(), ids=name)
def test_a_mistake_has_one_place_and_a_test(mistake: Mistake) -> None:
    assert mistake.places() == 1
    file, _, test = mistake.noticed_by.partition("::")
    tests = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    assert not test or test in {each.name for each in tests if isinstance(each, ast.FunctionDef)}


def test_only_a_failed_test_counts_as_noticed(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text("ANSWER = 42\n")
    (tmp_path / "test_right.py").write_text("from right import ANSWER\n\ndef test_right():\n    assert ANSWER == 42\n")

    def noticed(becomes: str, test: str) -> bool:
        edit = Mistake(mistake="a", file="right.py", find="42", becomes=becomes, noticed_by=test)
        return is_noticed(edit, tmp_path)

    assert noticed("43", "test_right.py::test_right")
    assert not noticed("42 + 0", "test_right.py::test_right")
    assert not noticed("43", "test_right.py::test_absent")
    assert (tmp_path / "right.py").read_text() == "ANSWER = 42\n"
