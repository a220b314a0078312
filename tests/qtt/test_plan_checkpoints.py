"""What earlier versions left of running queries is gone on from, as if nothing had happened in between."""

from __future__ import annotations

import inspect
import json
import pkgutil
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import kestrel_sql.operators
from kestrel_qtt.cases.discovery import case_file
from kestrel_qtt.cases.model import Case, OutputRecord, Post, Status
from kestrel_qtt.load import load_stored
from kestrel_qtt.plans.checkpoints import LARGEST_BYTES, Frozen, find, pack, read, second_half, unpack, write
from kestrel_qtt.plans.store import PlanStoreError
from kestrel_sql.spark.checkpoint.metadata import LAYOUT

STORE = Path(__file__).resolve().parents[2] / "historic-plans"
STORED = find(STORE)

FOR_PULL_QUERIES = {"TableStore"}
"""What a running engine puts behind a table for pull queries (docs/adr/0018).

It passes every row on, so that no output tells its state.
"""


@pytest.fixture
def frozen(tmp_path: Path) -> Frozen:
    folder = tmp_path / "checkpoint"
    (folder / "state" / "0").mkdir(parents=True)
    (folder / "state" / "0" / "1.zip").write_bytes(b"state")
    (folder / "state" / "0" / ".1.zip.crc").write_bytes(b"checksum")
    (folder / "metadata").write_text("{}")
    return Frozen("1.0.0", 2, {"OUT": 1}, ("StreamAggregate",), pack(folder))


def test_a_checkpoint_comes_back_without_its_checksums(frozen: Frozen, tmp_path: Path) -> None:
    stored = read(write(tmp_path, frozen))
    assert stored == frozen
    unpack(stored, tmp_path / "again")
    assert sorted(
        p.relative_to(tmp_path / "again").as_posix() for p in (tmp_path / "again").rglob("*") if p.is_file()
    ) == [
        "metadata",
        "state/0/1.zip",
    ]


def test_equal_files_make_equal_archives(frozen: Frozen, tmp_path: Path) -> None:
    unpack(frozen, tmp_path / "again")
    assert pack(tmp_path / "again") == frozen.archive


def test_a_stored_checkpoint_stays_as_it_is(frozen: Frozen, tmp_path: Path) -> None:
    path = write(tmp_path, frozen)
    with pytest.raises(PlanStoreError, match="stored already"):
        write(tmp_path, frozen)
    path.write_bytes(frozen.archive + b"!")
    with pytest.raises(PlanStoreError, match="was changed"):
        read(path)


@pytest.mark.parametrize("damage", ["", "[]", "{}", json.dumps({"version": "1"})])
def test_a_damaged_description_is_refused(frozen: Frozen, tmp_path: Path, damage: str) -> None:
    path = write(tmp_path, frozen)
    path.with_suffix(".json").write_text(damage)
    with pytest.raises(PlanStoreError, match="cannot be read"):
        read(path)


def test_a_large_checkpoint_is_refused(tmp_path: Path) -> None:
    import random

    (tmp_path / "noise").write_bytes(random.Random(1).randbytes(LARGEST_BYTES))
    with pytest.raises(PlanStoreError, match="more than"):
        pack(tmp_path)


def test_only_what_was_not_written_before_is_expected(frozen: Frozen) -> None:
    outputs = tuple(OutputRecord(topic=topic, value=at) for at, topic in enumerate(["OUT", "OTHER", "OUT"]))
    case = Case(id="x", file=Path("x"), line=1, name="n", statements=("s",), outputs=outputs, post=Post())
    left = second_half(case, frozen)
    assert left == replace(case, outputs=outputs[1:], post=None)


def operators() -> set[str]:
    """The classes of the engine that process rows with a state."""
    modules = [
        import_module(module.name)
        for module in pkgutil.walk_packages(kestrel_sql.operators.__path__, "kestrel_sql.operators.")
    ]
    classes = {
        cls
        for module in modules
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__
    }
    return {
        cls.__name__
        for cls in classes
        if hasattr(cls, "process") and hasattr(cls, "scope") and cls.__name__ != "Operator"
    }


def test_every_operator_has_a_stored_checkpoint() -> None:
    held = {name for path in STORED for name in read(path).operators}
    assert operators() - held == FOR_PULL_QUERIES


def layout(path: Path) -> int:
    """The layout of a stored checkpoint."""
    with zipfile.ZipFile(path) as archive:
        number: int = json.loads(archive.read("kestrel.json"))["layout"]
        return number


def test_every_stored_checkpoint_has_the_layout_that_is_read() -> None:
    assert {layout(path) for path in STORED} == {LAYOUT}


def chosen() -> Iterator[Any]:
    """Checkpoints that together have every operator, for every day; further ones are nightly."""
    held = {path: {*read(path).operators} for path in STORED}
    daily, known = set(), set()
    while path := max(
        (path for path in STORED if held[path] - known), key=lambda p: len(held[p] - known), default=None
    ):
        daily.add(path)
        known |= held[path]
    for path in STORED:
        marks = [] if path in daily else [pytest.mark.nightly]
        yield pytest.param(path, marks=marks, id=f"{path.parent.parent.name}-{path.stem}")


def test_stored_checkpoints_are_small() -> None:
    assert {path: size for path in STORED if (size := path.stat().st_size) >= LARGEST_BYTES} == {}


@pytest.fixture(scope="module")
def checkpoints() -> Iterator[Any]:
    from kestrel_qtt.plan_commands.resume import Checkpoints

    opened = Checkpoints()
    yield opened
    opened.close()


@pytest.mark.spark
@pytest.mark.parametrize("path", [*chosen()])
def test_todays_engine_goes_on_from_a_stored_checkpoint(path: Path, checkpoints: Any) -> None:
    result = checkpoints.resume(load_stored(case_file(path.with_name("spec.json"))), read(path))
    assert result.status is Status.PASSED, result.reason
