"""The commands of the tutorial do what its page says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kestrel_qtt.cli.main import main
from kestrel_qtt.cli.review import QUESTION

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def steps() -> list[tuple[str, str]]:
    """Return each command of the page, and what it prints."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", "\n".join(blocks), re.DOTALL | re.MULTILINE)


def run(command: str, answers: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command in the process of the tests, and return what it prints."""

    def answered(question: str) -> str:
        answer = answers.pop(0)
        sys.stdout.write(f"{question}{answer}\n")
        return answer

    if command.startswith("cd "):
        monkeypatch.chdir(command.removeprefix("cd "))
        return ""
    if not command.startswith("qtt "):
        subprocess.run(command, shell=True, check=True)
        return ""
    monkeypatch.setattr("builtins.input", answered)
    main(shlex.split(command)[1:])
    return capsys.readouterr().out


@pytest.mark.spark
def test_the_commands_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    ran = []
    for command, shown in steps():
        answers = re.findall(rf"^{re.escape(QUESTION)}(\w)", shown, re.MULTILINE)
        printed = run(command, answers, monkeypatch, capsys)
        parts = [re.escape(part.strip("\n")) for part in re.split("…", shown)]
        assert re.search(r"[\s\S]*?".join(parts), printed), f"{command} printed\n{printed}"
        assert answers == []
        ran.append(command.split()[:2])
    assert [second for first, second in ran if first == "qtt"] == [
        *("init", "run", "run", "shrink", "review", "run", "mutate", "mutate", "run")
    ]
    assert Path("report/index.html").exists()
