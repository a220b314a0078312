"""The recipes of docs/recipes.md work as written: each is applied to a copy of the project, and its commands run there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = tuple(re.findall(r"^## (.*)$", TEXT, re.MULTILINE))
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FOLDERS = ("docs", "engine", "historic-plans", "qtt", "test-cases", "tests")
FILES = ("CONTRIBUTING.md", "README.md", "pyproject.toml")
STARTS_SPARK = "# starts Spark"


def blocks(recipe: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each block of code of a recipe."""
    section = TEXT.partition(f"\n## {recipe}\n")[2].partition("\n## ")[0]
    for _, language, text in BLOCK.findall(section):
        yield language, textwrap.dedent(text)


def commands(recipe: str, *, with_spark: bool) -> list[str]:
    lines = [line for language, text in blocks(recipe) if language == "sh" for line in text.splitlines()]
    return [line.partition("#")[0].strip() for line in lines if with_spark or STARTS_SPARK not in line]


def replaced(text: str, hunk: str) -> str:
    """A text with a hunk of a diff, whose lines stand at one place."""
    lines = hunk.splitlines(keepends=True)
    old = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
    new = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
    assert f"\n{text}".count(f"\n{old}") == 1, f"these lines stand at no place, or at several:\n{old}"
    return f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]


def apply(recipe: str, project: Path) -> list[str]:
    """Write the blocks of a recipe into a project; returns the files that it wrote."""
    written = []
    for language, text in blocks(recipe):
        if language == "diff":
            for change in re.split(r"^--- ", text, flags=re.MULTILINE)[1:]:
                name, *hunks = re.split(r"\n@@\n", f"{change.rstrip()}\n")
                file = project / name
                for hunk in hunks:
                    file.write_text(replaced(file.read_text(encoding="utf-8"), f"{hunk.rstrip()}\n"), encoding="utf-8")
                written.append(name)
        elif language != "sh":
            first, _, rest = text.partition("\n")
            name = first.removeprefix("# ")
            file = project / name
            before = f"{file.read_text(encoding='utf-8')}\n\n" if file.exists() else ""
            file.write_text(before + rest, encoding="utf-8")
            written.append(name)
    return written


def run(project: Path, command: str | Sequence[str]) -> None:
    words = shlex.split(command) if isinstance(command, str) else command
    tools = Path(sys.executable).parent
    path = os.pathsep.join(str(project / each) for each in ("engine", "qtt", "."))
    done = subprocess.run(
        [str(tools / words[0]), *words[1:]],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A copy of the project, which is removed again: it has 80 MB."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for name in FILES:
        shutil.copyfile(ROOT / name, tmp_path / name)
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_recipes_without_spark(project: Path) -> None:
    """All at once, and the tests that they name in one process."""
    written = {name for recipe in RECIPES for name in apply(recipe, project)}
    tests: dict[str, None] = {}
    for command in (each for recipe in RECIPES for each in commands(recipe, with_spark=False)):
        if command.startswith("pytest "):
            tests |= dict.fromkeys(shlex.split(command)[1:])
        else:
            run(project, command)
    run(project, ["pytest", "-m", "not spark and not nightly", *tests])
    run(project, ["ruff", "check", *(name for name in sorted(written) if name.endswith(".py"))])


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_with_spark(project: Path, recipe: str) -> None:
    apply(recipe, project)
    for command in commands(recipe, with_spark=True):
        run(project, command)
