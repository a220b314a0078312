"""Rescaled state: it holds the same, a kill leaves the old or the new state whole, and queries go on from it."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.errors import CheckpointError
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.run import rescale_switch
from kestrel_sql.kafka.run.layout import READY
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest, StoredQuery
from kestrel_sql.kafka.run.rescaling import rescale_checkpoint
from kestrel_sql.kafka.run.stored_queries import stored_queries
from kestrel_sql.operators import state_codec
from kestrel_sql.operators.operator import Row
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.plan.codec.plan_file import encode_statement
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.spark.state.level import PLAN
from kestrel_sql.spark.stored import rescale as rescaling
from kestrel_sql.spark.stored.difference import differences
from kestrel_sql.spark.stored.rescale import rescale
from kestrel_sql.spark.stored.store_files import read_pages
from kestrel_sql.spark.stored.stored_query import open_stored
from tests.engine.spark.stored.checkpoints import pipeline
from tests.engine.spark.stored.fabricated import fabricate
from tests.engine.spark.stored.test_stored_query import rows_of, stream_rows


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a run with two queries."""
    folder = tmp_path_factory.mktemp("original") / "run"
    manifest = Manifest()
    for shape, rows in (("table-table", rows_of("table-table", 40)), ("windows", stream_rows(30))):
        made = pipeline(shape)
        fabricate(folder / "queries" / shape, made, rows)
        plan = encode_statement(StatementPlan(statement_text="", query_plan=made.group.plans[0]))
        manifest = manifest.with_query(
            StoredQuery(
                name=f"CREATE {shape}",
                id=shape,
                statement="",
                plan=plan,
                settings={},
                reading="spark",
                sources={},
                start={},
                pages=4,
                has_task_pages=True,
            )
        )
    CheckpointFolder(folder).save(manifest)
    return folder


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    """A copy of it to rescale."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def numbers(folder: Path) -> list[tuple[int, int]]:
    """The numbers of pages and of partitions of each query."""
    stored = CheckpointFolder(folder).load().queries.values()
    queries = stored_queries(folder, FUNCTIONS)
    assert [query.metadata.pages for query in queries] == [each.pages for each in stored]
    return [(query.metadata.pages, len(query.partitions(1))) for query in queries]


def assert_same(left: Path, right: Path) -> None:
    for old, new in zip(stored_queries(left, FUNCTIONS), stored_queries(right, FUNCTIONS), strict=True):
        assert list(differences(old, new)) == []


@pytest.mark.parametrize(("partitions", "pages"), [(1, None), (5, None), (2, 1), (3, 64)])
def test_a_rescaled_state_holds_the_same(run: Path, tmp_path: Path, partitions: int, pages: int | None) -> None:
    before = tmp_path / "before"
    shutil.copytree(run, before)
    rescaled = rescale_checkpoint(run, FUNCTIONS, partitions=partitions, pages=pages, wanted=None)
    assert all(each.rows > 5 for each in rescaled)
    assert numbers(run) == [(pages or 4, partitions)] * 2
    assert_same(before, run)
    head = json.loads((run / "queries/windows/offsets/0").read_text().splitlines()[1])
    assert head["conf"]["spark.sql.shuffle.partitions"] == str(partitions)
    operator = json.loads((run / "queries/windows/state/0/_metadata/v2/0").read_text().splitlines()[1])
    assert operator["stateStoreInfo"][0]["numPartitions"] == partitions
    assert sorted(entry.name for entry in run.iterdir()) == ["lock", "manifest.json", "queries"]


@pytest.mark.parametrize("shape", ["aggregate", "windows", "final", "stream-table", "table-table", "stream-stream"])
def test_a_rescaled_state_lies_where_a_query_with_these_numbers_puts_it(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_codec, "MANY_ROWS", 1)
    made, rows = pipeline(shape), rows_of(shape, 60, keys=9, apart=500)
    fabricate(tmp_path / "old", made, rows, pages=4, partitions=2)
    fabricate(tmp_path / "expected", made, rows, pages=7, partitions=3)
    old, expected = (open_stored(tmp_path / name, FUNCTIONS) for name in ("old", "expected"))
    rescaled = rescale(old, tmp_path / "new", partitions=3, pages=7).query
    found = places(rescaled)
    assert {place: keys for place, (keys, _) in found.items()} == {
        place: keys for place, (keys, _) in places(expected).items()
    }
    # The next row of a key comes after those that are there.
    for (_, task, _), (keys, number) in found.items():
        numbers = [before for (_, own, _), (there, before) in places(old).items() if own == task and keys & there]
        assert number == max(numbers)


def places(query: Any) -> dict[Any, tuple[set[Any], int]]:
    """Return the keys that each page of each partition holds, and the number of the last row of each page."""
    found = {}
    for partition in query.partitions(1):
        for page in read_pages(partition, query.batches):
            (state,) = (part for name, part in load_state(page.blob).items() if name != PLAN)
            keys = {(name, key) for name, rows in state.items() if isinstance(rows, Mapping) for key in rows}
            found[partition.name, page.task, page.page] = keys, state.get("number", 0)
    return found


def test_one_query_may_be_rescaled_over_what_a_killed_command_left(run: Path) -> None:
    left = run / "rescale.partial" / "queries" / "table-table"
    left.mkdir(parents=True)
    (left / "kestrel.json").write_text("{")
    rescale_checkpoint(run, FUNCTIONS, partitions=3, pages=8, wanted="windows")
    assert numbers(run) == [(4, 2), (8, 3)]


class KilledError(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("step", [2, 3, 4, 5, 8])
def test_a_kill_leaves_the_old_or_the_new_state_whole(
    run: Path, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are: the write of each query, the rename that decides, and each move after it."""
    before = tmp_path / "before"
    shutil.copytree(run, before)
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if done == step:
            raise KilledError

    def killable(called: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if Path(arguments[0]).is_relative_to(run):
                count()
            return called(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(rescaling, "write_metadata", killable(rescaling.write_metadata))
        patched.setattr(rescale_switch.shutil, "rmtree", killable(shutil.rmtree))
        patched.setattr(Path, "rename", killable(Path.rename))
        with pytest.raises(KilledError):
            rescale_checkpoint(run, FUNCTIONS, partitions=3, pages=8, wanted=None)
    if (run / READY).exists():
        with pytest.raises(CheckpointError, match="was interrupted"):
            stored_queries(run, FUNCTIONS)
    with CheckpointFolder(run).locked():
        assert numbers(run) in ([(4, 2)] * 2, [(8, 3)] * 2)
    assert_same(before, run)


def test_a_copy_that_lost_a_row_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = rescaling.write_pages
    monkeypatch.setattr(rescaling, "write_pages", lambda folder, version, pages: original(folder, version, pages[1:]))
    with pytest.raises(CheckpointError, match="does not hold the same rows in its step Join"):
        rescale_checkpoint(run, FUNCTIONS, partitions=1, pages=None, wanted=None)
    assert numbers(run) == [(4, 2)] * 2
    assert not (run / "rescale.partial").exists()


@pytest.mark.parametrize(
    ("partitions", "pages", "said"),
    [(0, None, "the number of partitions is 0"), (1, 0, "the number of pages is 0"), (10_001, None, "and 10000")],
)
def test_impossible_numbers_are_refused(run: Path, partitions: int, pages: int | None, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        rescale_checkpoint(run, FUNCTIONS, partitions=partitions, pages=pages, wanted=None)


def test_a_checkpoint_that_a_run_holds_is_not_rescaled(run: Path) -> None:
    with (run / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Exception, match="is in use"):
            rescale_checkpoint(run, FUNCTIONS, partitions=1, pages=None, wanted=None)


def test_what_is_not_the_checkpoint_of_a_run_is_refused(run: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no manifest\.json"):
        rescale_checkpoint(run / "queries" / "windows", FUNCTIONS, partitions=1, pages=None, wanted=None)


def test_pages_that_only_spark_computes_stay(tmp_path: Path) -> None:
    made = pipeline("double-key")
    rows = [
        Row(0, (at / 2,), tuple([at / 2] * len(made.group.levels[0][0].inputs[0].schema.value)), at) for at in range(3)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.engine.spark.stored.fabricated.hash_row", lambda key, columns: 0)
        folder = fabricate(tmp_path / "double", made, rows)
    query = open_stored(folder, FUNCTIONS)
    with pytest.raises(CheckpointError, match=r"of its step Aggregate\.Aggregate is a DOUBLE"):
        rescale(query, tmp_path / "new", partitions=2, pages=8)
    assert rescale(query, tmp_path / "new", partitions=2, pages=4).rows == 3
