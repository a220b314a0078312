"""State whose last versions have no archive, but changelogs: it is read, rescaled and resumed as with archives."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrel_sql.errors import CheckpointError
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state_tools.difference import differences
from kestrel_sql.spark.state_tools.rescale import rescale
from kestrel_sql.spark.state_tools.store_files import read_pages
from kestrel_sql.spark.state_tools.stored_query import StoredQuery, open_stored
from tests.engine.spark.state_tools.checkpoints import SHAPES, Run, pipeline, records

pytestmark = pytest.mark.spark

DAILY = "aggregate"
"""A rescaled query below, which every change runs, too, has two levels and tables."""
CHANGELOGS, PARTITIONS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", 2
PAGES, TASKS, BATCH = 4, 2, 30
GIVEN = [records(BATCH * at, BATCH * (at + 1), TASKS) for at in range(5)]


@pytest.fixture(scope="module")
def runner() -> Iterator[ResumableRunner]:
    spark = open_test_session().newSession()
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    opened = ResumableRunner(spark)
    yield opened
    opened.close()


def run(runner: ResumableRunner, shape: str, folder: Path, pages: int = PAGES) -> Run:
    return Run(runner, pipeline(shape), pages, TASKS, folder)


def advance(run: Run, batch: int, *, changelogs: bool) -> list[tuple[object, ...]]:
    run.runner.spark.conf.set(CHANGELOGS, str(changelogs).lower())
    return run.advance(GIVEN[batch])


def kinds(run: Run, version: int) -> set[str]:
    """What a version consists of in each partition of each level."""
    return {file.suffix for file in run.checkpoint.glob(f"state/*/*/{version}.*")}


def opened(run: Run) -> StoredQuery:
    return open_stored(run.checkpoint, FUNCTIONS)


@pytest.fixture(scope="module")
def written(runner: ResumableRunner, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A query after three batches, the last two of which have changelogs only."""
    found = run(runner, "aggregate", tmp_path_factory.mktemp("written"))
    for batch in range(3):
        advance(found, batch, changelogs=True)
    return found


@pytest.mark.parametrize(
    "shape", [shape if shape == DAILY else pytest.param(shape, marks=pytest.mark.nightly) for shape in SHAPES]
)
def test_a_query_gives_and_keeps_the_same_whichever_it_writes(
    runner: ResumableRunner, shape: str, tmp_path: Path
) -> None:
    plain, changed = (run(runner, shape, tmp_path / name) for name in ("plain", "changed"))
    for batch, changelogs in enumerate((True, True, True, False, True)):
        expected = advance(plain, batch, changelogs=False)
        assert advance(changed, batch, changelogs=changelogs) == expected
        # The first version has an archive as well, because only archives name the column families.
        first = {".zip"} if batch == 0 else set()
        assert kinds(changed, batch + 1) == ({".changelog"} if changelogs else {".zip"}) | first
        assert list(differences(opened(plain), opened(changed))) == []
    # The third version has an archive before it and one after it.
    assert states(changed, 3) == states(plain, 3) != states(plain, 4)


def states(run: Run, version: int) -> list[tuple[int, int, State]]:
    """The pages of the first level as of a version."""
    pages = [page for folder in opened(run).partitions(1) for page in read_pages(folder, version)]
    return sorted(((page.task, page.page, load_state(page.blob)) for page in pages), key=lambda page: page[:2])


def test_a_rescaled_query_goes_on(runner: ResumableRunner, tmp_path: Path) -> None:
    steady, rescaled = run(runner, "table-table", tmp_path / "s"), run(runner, "table-table", tmp_path / "r", pages=7)
    for batch in range(3):
        advance(steady, batch, changelogs=True)
        rescaled.skip(GIVEN[batch])
    assert kinds(steady, 3) == {".changelog"}
    assert rescale(opened(steady), rescaled.checkpoint, partitions=3, pages=7).rows > 0
    assert kinds(rescaled, 3) == {".zip"}
    for batch in (3, 4):
        expected = advance(steady, batch, changelogs=True)
        assert expected
        assert advance(rescaled, batch, changelogs=True) == expected
    assert kinds(rescaled, 5) == {".changelog"}
    assert list(differences(opened(steady), opened(rescaled))) == []


def test_every_version_can_be_read(written: Run) -> None:
    counts = [sum(len(list(read_pages(folder, at))) for folder in opened(written).partitions(1)) for at in (1, 2, 3)]
    assert counts[0] > 0
    assert counts == sorted(counts)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "2.changelog").unlink(), "2.changelog does not exist, nor does 2.zip"),
        (lambda folder: (folder / "2.changelog").write_bytes(b"LZ4Block"), "2.changelog is damaged: it ends too early"),
        (lambda folder: (folder / "1.zip").unlink(), "3.zip does not exist"),
    ],
)
def test_a_missing_or_damaged_file_is_named(damage: object, said: str, written: Run, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written.checkpoint, tmp_path / "copy")) / "state" / "0" / "0"
    assert callable(damage)
    damage(folder)
    with pytest.raises(CheckpointError, match=said) as caught:
        list(read_pages(folder, 3))
    assert str(folder) in caught.value.message
    assert caught.value.hint
