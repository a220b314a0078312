"""Benchmarks run at a small size, and what they name is there."""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import tests.bench
from tests.bench.__main__ import main, names
from tests.bench.expressions import projections
from tests.bench.kafka_start import STEPS
from tests.bench.tables import put

NAMES = sorted(module.name for module in pkgutil.iter_modules(tests.bench.__path__) if module.name != "__main__")

SMALL = {
    "ROWS": "2000",
    "ROUNDS": "1",
    "CASES": "1",
    "RECORDS": "100",
    "KEYS": "500",
    "PART": "250",
    "TASKS": "1",
    "QUERIES": "2",
    "WARM": "1",
    "BATCH": "500",
    "BATCHES": "20",
    "FEED": "200",
    "SECONDS": "2",
    "PUSH_SECONDS": "2",
    "CLIENTS": "5",
    "MINUTES": "2",
    "COUNT": "2",
    "SIZE": "10000",
    "FORMATS": "JSON",
    "SHAPES": "filter count",
    "JOB": "filter",
    "JOBS": "filter,count",
    "COMMAND": f"{sys.executable} --version",
    "INTO": "",
    "ONLY": "an order",
}
"""What a small size is to each benchmark; some have a variable of this name of their own."""
OWN: Mapping[str, Mapping[str, str]] = {
    "corpus": {"CASES": "test-cases/functions/abs.yaml", "COMMAND": "run"},
    "kafka": {"WAYS": "kestrel,floor"},
    "kafka_start": {"WAYS": "kestrel,pyspark"},
    "server": {"PARTS": "inserts,pushes"},
}
CHEAP = ("expressions", "mutate", "responsive", "shell", "shrink", "tests_memory")
"""The benchmarks that every change runs: together they take half a minute, as none needs a broker or a second JVM."""


def run_small(tmp_path: Path, *benchmarks: str) -> str:
    points = shutil.copyfile(Path(tests.bench.__path__[0]) / "scale_points.json", tmp_path / "points.json")
    (own,) = {frozenset(OWN.get(name, {}).items()) for name in benchmarks}
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", *benchmarks],
        env={**os.environ, **SMALL, "POINTS": str(points), **dict(own)},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.spark
def test_cheap_benchmarks_run_one_after_the_other(tmp_path: Path) -> None:
    said = run_small(tmp_path, *CHEAP)
    assert re.findall(r"^== (\w+)$", said, re.MULTILINE) == list(CHEAP)
    assert re.search(r"^\| an order \| 10 \| [\d.]+ \| [\d.]+ \|", said, re.MULTILINE)


def test_there_are_thirty_projections_of_5_to_20_expressions() -> None:
    sizes = [len(texts) for texts in projections().values()]
    assert len(sizes) == 30
    assert all(5 <= size <= 20 for size in sizes)


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("name", sorted({*names()} - {*CHEAP}))
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    assert len(run_small(tmp_path, name).splitlines()) > 1


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expresions"]) == 2
    assert capsys.readouterr().err.startswith("no benchmark called expresions; there are: cases, changelog, client")


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
    written = set(re.findall(r'write_(?:table|rows)\(\s*"([\w-]+)"', sources)) | {
        f"kafka-{each}" for each in ("seconds", "rates", "owners")
    }
    page = (root / "docs" / "performance.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", page)) == written
