"""Links, paths, names of code, areas of cases and commands in the documents exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import commands, endpoints

ROOT = Path(__file__).resolve().parents[1]
TEXTS = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
# The manual is checked against the declarations; its quotations are not paths.
PROSE = [path for path in TEXTS if path.name != "functions.md"]

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
QUOTED = re.compile(r"`([^`]+)`")
FOLDERS = "engine|qtt|tests|docs|test-cases|historic-plans"
PATH = re.compile(rf"(?:{FOLDERS})/[\w./*-]*")
PLACED = re.compile(rf"((?:`[^`]+`(?:,? and |, ))*`[^`]+`)(?: in | \(| of )`((?:{FOLDERS})/[\w/-]+\.py)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(.*\))?")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """Return the text in one line without code blocks, so that quotations may contain line breaks."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_every_link_leads_somewhere(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", PROSE, ids=name)
def test_every_path_that_is_quoted_exists(path: Path) -> None:
    quoted = {found for text in QUOTED.findall(prose(path)) for found in text.split() if PATH.fullmatch(found)}
    assert [found for found in sorted(quoted) if not list(ROOT.glob(found.rstrip("/")))] == []


def placed_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a text places in a module, each with the path of the module."""
    for names, module in PLACED.findall(text):
        for quoted in QUOTED.findall(names):
            if NAME.fullmatch(quoted):
                yield from ((part, module) for part in quoted.partition("(")[0].split("."))


@pytest.mark.parametrize("path", PROSE, ids=name)
def test_every_name_is_in_the_module_that_is_said_to_have_it(path: Path) -> None:
    absent = [
        f"{part} in {module}"
        for part, module in placed_names(prose(path))
        if not re.search(rf"\b{part}\b", (ROOT / module).read_text(encoding="utf-8"))
    ]
    assert absent == []


def test_names_are_found_in_prose() -> None:
    text = "`Session._commit` in `engine/session.py`, `a` and `b(x)` in `qtt/run.py`, `WHERE x` in `qtt/run.py`"
    assert list(placed_names(text)) == [
        ("Session", "engine/session.py"),
        ("_commit", "engine/session.py"),
        ("a", "qtt/run.py"),
        ("b", "qtt/run.py"),
    ]


def test_the_recipe_of_a_case_names_every_area_of_cases() -> None:
    text = prose(ROOT / "docs" / "recipes.md")
    (listed,) = re.findall(r"areas are `([^`]+)`", text)
    assert listed.split() == sorted(path.name for path in (ROOT / "test-cases").iterdir() if path.is_dir())


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    written = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS)
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", written, flags=re.MULTILINE))
    assert named
    assert named <= targets


def test_the_references_say_what_commands_and_endpoints_say() -> None:
    assert commands.PAGE.read_text(encoding="utf-8") == commands.page(), "write it anew: python -m tests.commands"
    assert endpoints.PAGE.read_text(encoding="utf-8") == endpoints.page(), "write it anew: python -m tests.endpoints"


@pytest.mark.parametrize(("file", "lines"), [("README.md", 120), ("CONTRIBUTING.md", 150)])
def test_a_first_page_is_short(file: str, lines: int) -> None:
    assert len((ROOT / file).read_text(encoding="utf-8").splitlines()) <= lines


@pytest.mark.parametrize("path", [path for path in TEXTS if path.parent.name != "adr"], ids=name)
def test_a_manual_tells_neither_of_a_tracker_nor_of_the_load_of_a_machine(path: Path) -> None:
    assert re.findall(r"\b[Ii]ssue #?\d+|\bload (?:of )?\d+|\bidle machine", path.read_text(encoding="utf-8")) == []


def test_the_index_of_decisions_lists_each_of_them() -> None:
    listed = LINK.findall((ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8"))
    assert sorted(set(listed)) == sorted(path.name for path in (ROOT / "docs" / "adr").glob("0*.md"))


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "--config-file",
        str(ROOT / ".mkdocs.yml"),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [*command, "--site-dir", str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    assert (tmp_path / "testing" / "index.html").exists()
