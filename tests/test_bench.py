"""Benchmarks are not run by tests; what they name has to be there."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tests.bench
from tests.bench.kafka_start import STEPS
from tests.bench.tables import put

NAMES = sorted(module.name for module in pkgutil.iter_modules(tests.bench.__path__) if module.name != "__main__")


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    assert importlib.import_module(f"tests.bench.{name}").__doc__


@pytest.mark.parametrize(("module", "path"), [step[:2] for step in STEPS])
def test_a_step_that_is_timed_exists(module: str, path: str) -> None:
    assert callable(functools.reduce(getattr, path.split("."), importlib.import_module(module)))


def test_a_table_replaces_what_is_between_its_marks_only(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("<!-- table: a -->\n<!-- end -->\n\ntext\n<!-- table: b -->\nold\n<!-- end -->\n", encoding="utf-8")
    put(file, "a", "| 1 |")
    put(file, "b", "| 2 |")
    put(file, "a", "| 3 |")
    text = "<!-- table: a -->\n\n| 3 |\n\n<!-- end -->\n\ntext\n<!-- table: b -->\n\n| 2 |\n\n<!-- end -->\n"
    assert file.read_text(encoding="utf-8") == text
    with pytest.raises(ValueError, match="has no <!-- table: c -->"):
        put(file, "c", "| 4 |")


def test_the_speed_document_has_each_table_that_a_benchmark_writes(root: Path) -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in (root / "tests" / "bench").glob("*.py"))
    written = set(re.findall(r'write_table\(\s*"([\w-]+)"', sources)) | {
        f"kafka-{each}" for each in ("seconds", "rates", "owners")
    }
    page = (root / "docs" / "performance.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", page)) == written
