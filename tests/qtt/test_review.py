from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.load import load

CASES = """\
# cases of the copy
tests:
  - name: copied          # the first
    format: [JSON, AVRO]
    statements: ["COPY {FORMAT}"]
    inputs:
      - {topic: IN, key: 1, value: {A: 1.50, B: x}, timestamp: 1}
      - {topic: IN, key: 2, value: {A: 2.50, B: y}, timestamp: 2}
      - {topic: IN, key: 3, value: {A: 3.50, B: z}, timestamp: 3}
    outputs:
      # a number that differs
      - {topic: OUT, key: 1, value: {A: 1.5, B: "x"}}   # see above
      - {topic: OUT, key: 3, value: {A: 3.50, B: z}}
      - {topic: OUT, key: 9, value: {A: 3.50, B: z}}
  - name: open
    statements: [COPY]
    inputs:
      - {topic: IN, key: 1, value: 7}
  - name: refused
    statements: [REJECT it]
    outputs: []
"""
REVIEWED = """\
    outputs:
      # a number that differs
      - {topic: OUT, key: 1, value: {A: 1.50, B: "x"}}   # see above
      - {"topic": "OUT", "key": 2, "value": {"A": 2.50, "B": "y"}, "timestamp": 2}
      - {topic: OUT, key: 3, value: {A: 3.50, B: z}}
  - name: open
    statements: [COPY]
    inputs:
      - {topic: IN, key: 1, value: 7}
    outputs:
      - {"topic": "OUT", "key": 1, "value": 7, "timestamp": 0}
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    Path("x.yaml").write_text(CASES)
    return Path("x.yaml")


def answers(monkeypatch: pytest.MonkeyPatch, *given: str) -> list[str]:
    asked: list[str] = []
    left: Iterator[str] = iter(given)

    def ask(question: str) -> str:
        asked.append(question)
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", ask)
    return asked


def review(fake: Any, *arguments: str) -> int:
    return main(["review", "x.yaml", *arguments], lambda: fake)


def test_accepted_records_are_written_and_all_else_stays(
    path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answers(monkeypatch, "a", "what", "a", "a", "a", "s")
    assert review(fake) == ExitCode.FAILURES
    out = capsys.readouterr().out
    text = path.read_text()
    assert REVIEWED in text
    assert text.startswith(CASES[: CASES.index("    outputs:")])
    assert "record 0 (x.yaml:12):\n  column   expected       actual" in out
    assert "record 1 as written is not expected" in out
    assert "record 2 (x.yaml:14) is missing" in out
    assert "statement 1 (the last one) was rejected: it" in out
    assert asked[-1] == "[s]kip, [e]dit, [q]uit? "
    assert "4 of 4 cases differ: 4 accepted, 1 skipped" in out
    assert load(path).errors == ()
    answers(monkeypatch)
    assert review(fake, "-k", "not refused") == ExitCode.OK
    assert "0 of 3 cases differ" in capsys.readouterr().out


def test_what_is_skipped_stays(path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "s", "s", "a", "q")
    assert review(fake) == ExitCode.FAILURES
    assert path.read_text() == CASES.replace("      - {topic: OUT, key: 9, value: {A: 3.50, B: z}}\n", "")
    answers(monkeypatch)
    before = path.read_text()
    review(fake)
    assert path.read_text() == before


def test_an_editor_opens_at_the_record(path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[list[str]] = []
    monkeypatch.setenv("EDITOR", "code --wait")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr("subprocess.run", lambda command, check: opened.append(command))
    answers(monkeypatch, "e", "q")
    review(fake)
    assert opened == [["code", "--wait", "+12", "x.yaml"]]


def test_records_that_changed_places(path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = CASES.splitlines(keepends=True)
    path.write_text("".join([*lines[:10], lines[12], *lines[10:12], *lines[14:]]).replace("A: 1.5,", "A: 1.50,"))
    answers(monkeypatch, "a", "a", "q")
    review(fake, "-k", "copied")
    (case, _) = load(path).cases[:2]
    assert [record.key for record in case.outputs or ()] == [1, 2, 3]


def test_the_processing_log_is_reviewed(
    path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = "tests:\n  - name: logs\n    statements: [LOG a bad byte]\n    log:\n      - {message: a good byte}  # why\n"
    path.write_text(case)
    answers(monkeypatch, "a")
    assert review(fake) == ExitCode.OK
    assert "the message 'a bad byte' does not contain 'a good byte'" in capsys.readouterr().out
    assert path.read_text() == case.replace("a good byte", '"a bad byte"')


def test_it_needs_a_terminal(
    path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert review(fake) == ExitCode.USAGE
    assert "`qtt approve` is for scripts" in capsys.readouterr().err
