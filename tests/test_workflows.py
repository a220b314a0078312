"""The workflows run what `make` runs here, with actions that nobody can change behind a name, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
PINNED = re.compile(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}")


def jobs(workflow: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_of_make_and_pinned_actions(workflow: Path) -> None:
    for job in jobs(workflow):
        for step in job["steps"]:
            assert PINNED.fullmatch(step["uses"]) if "uses" in step else called(step, job) <= TARGETS, step
    assert "secrets." not in workflow.read_text(encoding="utf-8")


def called(step: dict[str, Any], job: dict[str, Any]) -> set[str]:
    """The targets that a step makes: the one that it names, or those of the matrix."""
    make, target = step["run"].split()
    assert make == "make"
    return set(job["strategy"]["matrix"]["target"]) if target == '"$TARGET"' else {target}


def test_every_part_of_ci_has_a_workflow() -> None:
    assert {path.stem for path in WORKFLOWS} >= {"lint", "nightly", "tests"}
