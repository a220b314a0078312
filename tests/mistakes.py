"""Make the mistakes of tests/mistakes.yaml, one by one in a copy of the project: each must fail the test that it names.

python -m tests.mistakes            (all of them; words choose those whose test or text has one)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "engine", "historic-plans", "qtt", "test-cases", "tests")
FAILED = 1
"""What pytest ends with when a test has failed; it ends otherwise where a test is missing or cannot be collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """An edit of one place, and the test that notices it."""

    mistake: str
    file: str
    find: str
    becomes: str
    noticed_by: str

    def places(self) -> int:
        """At how many places of the file the edit could be made; it must be one."""
        return (ROOT / self.file).read_text(encoding="utf-8").count(self.find)


def mistakes() -> list[Mistake]:
    """Read the list."""
    listed = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return [Mistake(**each) for each in listed]


def is_noticed(mistake: Mistake, copy: Path) -> bool:
    """Make a mistake in the copy, run its test there, and mend it again."""
    file = copy / mistake.file
    right = file.read_text(encoding="utf-8")
    file.write_text(right.replace(mistake.find, mistake.becomes), encoding="utf-8")
    own = (str(copy / each) for each in ("engine", "qtt", "."))
    path = os.pathsep.join([*own, os.environ.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider", mistake.noticed_by],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            check=False,
        )
    finally:
        file.write_text(right, encoding="utf-8")
    return done.returncode == FAILED


def main(words: Sequence[str]) -> int:
    """Make the mistakes that the words choose, all without words; the exit code is 1 if one is not noticed."""
    chosen = [each for each in mistakes() if not words or any(word in f"{each}" for word in words)]
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        shutil.copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
        missed = []
        for number, each in enumerate(chosen, 1):
            noticed = is_noticed(each, copy)
            missed += [] if noticed else [each]
            print(f"{number} of {len(chosen)}: {'noticed' if noticed else 'MISSED'}: {each.mistake}", flush=True)
    for each in missed:
        print(f"{each.noticed_by} does not notice: {each.mistake} ({each.file})")
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mistakes are noticed")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
