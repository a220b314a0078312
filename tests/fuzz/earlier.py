"""Compares applications with what an earlier commit makes of them on Spark, cut and restarted here.

The commit runs from a copy of its tree, with this environment and what only it needs beside it. Where both differ,
ksqlDB's engine says whether the earlier one was wrong.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.cases.model import Case, Status
from kestrel_qtt.cli.approve import is_open
from kestrel_qtt.cli.case_text import case_text
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.load import load_all
from kestrel_qtt.plans.spec import case_document
from kestrel_qtt.runner import run_cases
from tests.fuzz import oracle
from tests.fuzz.agreement import difference
from tests.fuzz.applications import Applications

TAG = "before-one-dataflow"
"""The commit whose checkpoints later ones go on with."""

ONLY_IT_NEEDS = ("sqlglot==30.30.0",)
"""What it needs and this environment lacks."""

_ROOT = Path(__file__).resolve().parents[2]
_OPTIONS = (RunOptions("one"), RunOptions("random:3", restart=True))


def differences(seed: int, tries: int, tell: Callable[[str], None]) -> Iterator[str]:
    """Yield where an application gives something else than it gave; `tell` hears of progress."""
    if subprocess.run(["git", "rev-parse", "-q", "--verify", TAG], cwd=_ROOT, capture_output=True).returncode:
        tell(f"the tag {TAG} is absent: nothing was compared")
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "cases")
        root.mkdir()
        for number in range(tries):
            case = Applications(random.Random(f"{seed}-{number}")).case(f"application-{number}")
            (root / f"application-{number}.yaml").write_text(case_text(case_document(case)), encoding="utf-8")
        _approve(Path(folder), root)
        given = [case for case in load_all(find_files([root])).cases if not is_open(case)]
        tell(f"{len(given)} of {tries} applications run to their end at {TAG}")
        for options in _OPTIONS:
            yield from _differing(given, options)
            tell(f"compared with cut {options.cut}")


def _approve(folder: Path, root: Path) -> None:
    """Let the earlier commit write the outputs of the cases."""
    tree, needed = folder / "tree", folder / "needed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", needed, *ONLY_IT_NEEDS]
    subprocess.run(pip, check=True)
    tree.mkdir()
    archive = subprocess.run(["git", "archive", TAG], cwd=_ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
    path = os.pathsep.join(map(str, (tree / "engine", tree / "qtt", needed)))
    command = [sys.executable, "-m", "kestrel_qtt.cli.main", "approve", root, "--cold"]
    # Exit code 1: some applications do not run to their end.
    made = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if made.returncode > 1:
        raise RuntimeError(made.stderr[-2000:])


def _differing(cases: Sequence[Case], options: RunOptions) -> Iterator[str]:
    asked = oracle.Oracle()
    with closing(open_driver("spark")) as driver, closing(asked):
        for result in run_cases(cases, driver, options):
            if result.status is Status.PASSED or (oracle.is_present() and _is_mended(asked, result.case)):
                continue
            yield f"{result.case.file.read_text(encoding='utf-8')}\n# {result.reason}"


def _is_mended(asked: oracle.Oracle, case: Case) -> bool:
    """Whether ksqlDB's engine agrees with what comes of a case here."""
    with closing(open_driver("process")) as driver:
        ((_, ours, _),) = driver.run([case], RunOptions())
    return difference(case, asked.outcome(case), ours) is None
