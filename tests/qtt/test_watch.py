from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli import watch as watching
from kestrel_qtt.cli.main import ExitCode, main

INPUTS = [{"topic": "IN", "value": 1}]
GOOD = {"name": "good", "statements": ["COPY"], "inputs": INPUTS, "outputs": [{"topic": "OUT", "value": 1}]}
FUNCTIONS = """
from kestrel_sql.functions.declaration import scalar


@scalar("(text STRING) -> STRING")
def twice(text):
    \"\"\"Repeat a text.\"\"\"
    return text + text
"""


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    monkeypatch.chdir(tmp_path)
    times = iter(range(1_000, 2_000))

    def save(name: str, text: str) -> None:
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        at = next(times)
        for each in (path, path.parent):
            os.utime(each, (at, at))

    save("app.sql", "COPY")
    save("cases/a.json", json.dumps({"tests": [{**GOOD, "statements": {"file": "../app.sql"}}]}))
    save("cases/b.json", json.dumps({"tests": [GOOD, {**GOOD, "name": "bad", "outputs": []}]}))
    return save


def watch(
    fake: Any, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], None], arguments: tuple[str, ...] = ()
) -> int:
    """Watch while the steps are taken, one before each look at the files."""
    left = iter(steps)

    def wait() -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(watching, "pause", wait)
    return main(["watch", "cases", *arguments], lambda: fake)


def names(group: list[str]) -> list[str]:
    return [name.removeprefix("cases/") for name in group]


def test_only_what_a_file_touches_runs_again(
    save: Callable[[str, str], None], fake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("cases/b.json").read_text()
    code = watch(
        fake,
        monkeypatch,
        lambda: None,
        lambda: save("app.sql", "FAIL it"),
        lambda: save("cases/b.json", text + "\n"),
        lambda: save("app.sql", "COPY"),
    )
    assert [names(group) for group in fake.groups] == [
        ["a.json::good", "b.json::good", "b.json::bad"],
        ["a.json::good"],
        ["b.json::bad", "b.json::good"],
        ["a.json::good"],
    ]
    out = capsys.readouterr().out
    assert "the query failed: it" in out
    assert "0 passed, 1 failed in 0.0 s" in out
    assert "; 1 more failed before; watching 3 files, Ctrl-C ends" in out
    assert out.endswith("1 case fails\n")
    assert (code, fake.closed) == (ExitCode.FAILURES, 1)


def test_files_come_break_and_go(
    save: Callable[[str, str], None], fake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def remove() -> None:
        Path("cases/b.json").unlink()
        os.utime("cases", (3_000, 3_000))

    code = watch(
        fake,
        monkeypatch,
        lambda: save("cases/c.json", json.dumps({"tests": [{**GOOD, "name": "new"}]})),
        lambda: save("cases/c.json", '{"tests": [{"statements": ["X"], "outputs": []'),
        lambda: save("cases/c.json", json.dumps({"tests": [{**GOOD, "name": "newer"}]})),
        remove,
    )
    assert "cases/c.json:1" in capsys.readouterr().out
    assert [names(group) for group in fake.groups[1:]] == [["c.json::new"], ["c.json::newer"]]
    assert code == ExitCode.OK


def test_functions_touch_all_cases(
    save: Callable[[str, str], None], fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("lib/mine.py", FUNCTIONS)
    watch(
        fake,
        monkeypatch,
        lambda: save("lib/mine.py", FUNCTIONS + "\n"),
        arguments=("--functions", "lib/mine.py"),
    )
    assert [len(group) for group in fake.groups] == [3, 3]
