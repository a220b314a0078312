"""Rescaled state: it holds the same, a kill leaves the old or the new state whole, and queries go on from it."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_sql.errors import CheckpointError, CheckpointInUseError
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.run import manifest as manifests
from kestrel_sql.kafka.run import rescaling as commands
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest, StoredQuery
from kestrel_sql.kafka.run.rescaling import rescale_checkpoint
from kestrel_sql.kafka.run.stored_queries import stored_queries
from kestrel_sql.operators import state_codec
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.plan.codec.plan_file import encode_statement
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, create_new, open_store
from kestrel_sql.spark.state.level import PLAN
from kestrel_sql.spark.state_tools import rescale as rescaling
from kestrel_sql.spark.state_tools.difference import differences
from kestrel_sql.spark.state_tools.rescale import rescale
from kestrel_sql.spark.state_tools.store_files import read_pages
from kestrel_sql.spark.state_tools.stored_query import open_stored
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.spark.state_tools.checkpoints import pipeline
from tests.engine.spark.state_tools.fabricated import fabricate
from tests.engine.spark.state_tools.test_stored_query import rows_of, stream_rows


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a run with two queries."""
    folder = tmp_path_factory.mktemp("original") / "run"
    manifest = Manifest()
    for shape, rows in (("table-table", rows_of("table-table", 40)), ("windows", stream_rows(30))):
        made = pipeline(shape)
        fabricate(folder / "queries" / shape, made, rows)
        plan = encode_statement(StatementPlan(statement_text="", query_plan=made.graph.plans[0]))
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


@pytest.mark.parametrize("partitions", [2, 4])
def test_pages_stay_together_by_task_as_long_as_there_are_enough_tasks(tmp_path: Path, partitions: int) -> None:
    made, rows = pipeline("table-table"), rows_of("table-table", 60, keys=9)
    fabricate(tmp_path / "old", made, rows, pages=4, pages_by_task=True)
    fabricate(tmp_path / "expected", made, rows, pages=7, partitions=partitions, pages_by_task=partitions == 2)
    old, expected = (open_stored(tmp_path / name, FUNCTIONS) for name in ("old", "expected"))
    rescaled = rescale(old, tmp_path / "new", partitions=partitions, pages=7).query
    assert rescaled.metadata.pages_by_task is (partitions == 2)
    assert places(rescaled).keys() == places(expected).keys()
    assert [*differences(old, rescaled)] == []


def test_a_query_whose_slots_may_be_half_written_is_not_rescaled(run: Path) -> None:
    folder = CheckpointFolder(run)
    stored = next(query for query in folder.load().queries.values() if query.id == "windows")
    folder.save(folder.load().with_query(replace(stored, level_writes=True)))
    (run / "queries" / "windows" / "commits" / "0").unlink()
    with pytest.raises(CheckpointError, match="windows has begun a batch that is not finished"):
        rescale_checkpoint(run, FUNCTIONS, partitions=3, pages=None, wanted=None)


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
    head = json.loads((run / "rescaled/1/windows/offsets/0").read_text().splitlines()[1])
    assert head["conf"]["spark.sql.shuffle.partitions"] == str(partitions)
    operator = json.loads((run / "rescaled/1/windows/state/0/_metadata/v2/0").read_text().splitlines()[1])
    assert operator["stateStoreInfo"][0]["numPartitions"] == partitions
    assert checkpoints(run) == ["rescaled/1/table-table", "rescaled/1/windows"]


@pytest.mark.parametrize("pages_by_task", [False, True], ids=["spread", "by task"])
@pytest.mark.parametrize(
    ("shape", "in_columns"),
    [
        ("numbers", True),
        *(
            (shape, False)
            for shape in ("aggregate", "windows", "final", "stream-table", "table-table", "stream-stream")
        ),
    ],
)
def test_a_rescaled_state_lies_where_a_query_with_these_numbers_puts_it(
    shape: str, in_columns: bool, pages_by_task: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_codec, "BUCKETED_FROM", 1)
    made, rows = pipeline(shape), rows_of(shape, 60, keys=9, apart=500)
    fabricate(tmp_path / "old", made, rows, pages=4, partitions=2, in_columns=in_columns, pages_by_task=pages_by_task)
    # There are more partitions than tasks.
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
    left = run / "rescaled" / "1" / "table-table"
    left.mkdir(parents=True)
    (left / "kestrel.json").write_text("{")
    rescale_checkpoint(run, FUNCTIONS, partitions=3, pages=8, wanted="windows")
    assert numbers(run) == [(4, 2), (8, 3)]
    assert checkpoints(run) == ["queries/table-table", "rescaled/1/windows"]


def test_a_query_may_be_rescaled_again_and_by_itself(run: Path, tmp_path: Path) -> None:
    before = Path(shutil.copytree(run, tmp_path / "before"))
    for partitions, wanted in ((3, None), (1, "windows"), (2, None)):
        rescale_checkpoint(run, FUNCTIONS, partitions=partitions, pages=8, wanted=wanted)
    assert numbers(run) == [(8, 2)] * 2
    assert checkpoints(run) == ["rescaled/3/table-table", "rescaled/3/windows"]
    assert_same(before, run)


def checkpoints(run: Path) -> list[str]:
    """The checkpoints of queries that a folder has."""
    return sorted(str(found.relative_to(run)) for part in ("queries/*", "rescaled/*/*") for found in run.glob(part))


class KilledError(BaseException):
    """Stands for a kill."""


@pytest.fixture(params=["folder", pytest.param("store", marks=pytest.mark.spark)])
def place(run: Path, request: pytest.FixtureRequest) -> CheckpointPath:
    """The copy as a folder, and behind Hadoop's file system."""
    return run if request.param == "folder" else open_store(open_test_session(), run.as_uri())


@pytest.mark.parametrize("step", range(8))
def test_a_kill_leaves_the_old_or_the_new_state_whole(
    place: CheckpointPath, run: Path, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are: before and after each copy, the write of the manifest, and each removal."""
    before = Path(shutil.copytree(run, tmp_path / "before"))
    done: list[str] = []

    def killable(called: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            kill(f"before {called.__name__}")
            found = called(*arguments, **named)
            kill(f"after {called.__name__}")
            return found

        return call

    def kill(what: str) -> None:
        done.append(what)
        if len(done) > step:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(commands, "rescale", killable(rescale))
        patched.setattr(commands, "remove_folder", lambda _: None)
        patched.setattr(CheckpointFolder, "save", killable(CheckpointFolder.save))
        patched.setattr(manifests, "remove_folder", killable(manifests.remove_folder))
        with pytest.raises(KilledError):
            rescale_checkpoint(place, FUNCTIONS, partitions=3, pages=8, wanted=None)
    is_new = "after save" in done
    assert numbers(run) == ([(8, 3)] * 2 if is_new else [(4, 2)] * 2)
    assert_same(before, run)
    with CheckpointFolder(place).locked():
        assert numbers(run) == ([(8, 3)] * 2 if is_new else [(4, 2)] * 2)
    assert_same(before, run)
    above = "rescaled/1" if is_new else "queries"
    assert checkpoints(run) == [f"{above}/table-table", f"{above}/windows"]


def test_a_rescaled_store_says_where_its_files_are(place: CheckpointPath, run: Path) -> None:
    operator = run / "queries/windows/state/0/_metadata/v2/0"
    version, _, text = operator.read_text().partition("\n")
    document = json.loads(text)
    schema = "state/0/_stateSchema/default/0_7"
    document["stateStoreInfo"][0]["stateSchemaFilePaths"] = [f"file:{run}/queries/windows/{schema}"]
    operator.write_text(f"{version}\n{json.dumps(document)}")
    (operator.parent / ".0.crc").unlink(missing_ok=True)
    rescale_checkpoint(place, FUNCTIONS, partitions=3, pages=None, wanted=None)
    moved = json.loads((run / "rescaled/1/windows/state/0/_metadata/v2/0").read_text().partition("\n")[2])
    (path,) = moved["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert Path(path.replace("file://", "file:").removeprefix("file:")) == run / "rescaled/1/windows" / schema


@pytest.mark.parametrize("goes_on", [True, False])
def test_states_that_went_on_before_a_late_manifest_count_again(run: Path, tmp_path: Path, goes_on: bool) -> None:
    """A store may finish the write of a command that has lost its lease, after another run has committed a batch."""
    before = Path(shutil.copytree(run, tmp_path / "before"))
    rescale_checkpoint(run, FUNCTIONS, partitions=3, pages=8, wanted="windows")
    old = Path(shutil.copytree(before / "queries" / "windows", run / "queries" / "windows"))
    if goes_on:
        shutil.copy(old / "offsets" / "0", old / "offsets" / "1")
    with CheckpointFolder(run).locked():
        stored = CheckpointFolder(run).load().queries["CREATE windows"]
    assert (stored.rescaled, stored.pages) == ((0, 4) if goes_on else (1, 8))
    assert checkpoints(run) == ["queries/table-table", "queries/windows" if goes_on else "rescaled/1/windows"]


def test_states_count_again_if_their_copies_are_gone_when_a_late_manifest_names_them(run: Path, tmp_path: Path) -> None:
    before = Path(shutil.copytree(run, tmp_path / "before"))
    rescale_checkpoint(run, FUNCTIONS, partitions=3, pages=None, wanted=None)
    shutil.rmtree(run / "rescaled")
    shutil.copytree(before / "queries", run / "queries", dirs_exist_ok=True)
    with CheckpointFolder(run).locked():
        assert numbers(run) == [(4, 2)] * 2
    assert_same(before, run)


@pytest.mark.spark
def test_a_store_is_not_rescaled_while_a_run_holds_it(run: Path) -> None:
    place = open_store(open_test_session(), run.as_uri())
    with (
        CheckpointFolder(place).locked(),
        pytest.raises(CheckpointInUseError, match="is in use by another kestrel run"),
    ):
        rescale_checkpoint(place, FUNCTIONS, partitions=1, pages=None, wanted=None)
    assert numbers(run) == [(4, 2)] * 2


@pytest.mark.spark
@pytest.mark.parametrize("is_late", [True, False])
def test_a_command_that_lost_its_lease_switches_and_removes_nothing(
    run: Path, tmp_path: Path, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Path(shutil.copytree(run, tmp_path / "before"))
    place = open_store(open_test_session(), run.as_uri())

    def taken(called: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            found = called(*arguments, **named)
            create_new(place / "lease" / "2", json.dumps({"process": 7, "host": "other"}))
            return found

        return call

    with monkeypatch.context() as patched:
        if is_late:
            patched.setattr(CheckpointFolder, "save", taken(CheckpointFolder.save))
        else:
            patched.setattr(commands, "rescale", taken(rescale))
        with pytest.raises(CheckpointInUseError, match=r"has lost its lease .* \(process 7 on other\)"):
            rescale_checkpoint(place, FUNCTIONS, partitions=3, pages=8, wanted=None)
    assert numbers(run) == ([(8, 3)] * 2 if is_late else [(4, 2)] * 2)
    assert_same(before, run)
    assert set(checkpoints(run)) >= {"queries/table-table", "queries/windows"}


def test_a_copy_that_lost_a_row_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = rescaling.write_pages
    monkeypatch.setattr(rescaling, "write_pages", lambda folder, version, pages: original(folder, version, pages[1:]))
    with pytest.raises(CheckpointError, match="does not hold the same rows in its step Join"):
        rescale_checkpoint(run, FUNCTIONS, partitions=1, pages=None, wanted=None)
    assert numbers(run) == [(4, 2)] * 2
    assert checkpoints(run) == ["queries/table-table", "queries/windows"]


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


def test_keys_of_doubles_get_other_pages(tmp_path: Path) -> None:
    made = pipeline("double-key")
    width = len(made.graph.levels[0][0].inputs[0].schema.value)
    folder = fabricate(tmp_path / "double", made, [Row(0, (at / 2,), (at / 2,) * width, at) for at in range(3)])
    assert rescale(open_stored(folder, FUNCTIONS), tmp_path / "new", partitions=2, pages=8).rows == 3
