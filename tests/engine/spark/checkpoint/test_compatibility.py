"""Tests that a query refuses a checkpoint that it cannot resume from, before Spark starts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kestrel_qtt.plan_commands.resume import resume_copy
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import CheckpointError, QueryError
from kestrel_sql.operators.group_columns import GroupColumns
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.session.session import Session
from kestrel_sql.spark.checkpoint.compatibility import check_start, folder_of
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, read_metadata, write_metadata
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.io.arrow_passes import Passes
from kestrel_sql.spark.pipeline import pipeline as pipelines
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state.level import PLAN, Level, load_page
from kestrel_sql.spark.state.packing import task_pages
from kestrel_sql.spark.state.page_check import page_check
from kestrel_sql.spark.state.transform_with_state import Host
from kestrel_sql.topics.records import Record

pytestmark = pytest.mark.spark

SOURCE = "CREATE STREAM S (K STRING KEY, V INT) WITH (kafka_topic='s', value_format='JSON');"
SUM = "CREATE TABLE T AS SELECT K, SUM(V) AS N FROM S GROUP BY K;"


def pipeline(*statements: str) -> Pipeline:
    runs = []
    for statement in statements:
        session = Session()
        for parsed in session.parse(SOURCE + statement):
            session.execute(parsed)
        runs += [QueryRun(plan=query.plan, serde=session.serde()) for query in session.queries.values()]
    return build_pipeline(runs)


def records(first: int, last: int) -> list[Record]:
    return [
        Record(topic="s", key=b"k%d" % (at % 4), value=b'{"V": %d}' % at, timestamp=at, offset=at)
        for at in range(first, last)
    ]


@pytest.fixture(scope="module")
def runner() -> Iterator[ResumableRunner]:
    opened = ResumableRunner(open_test_session())
    yield opened
    opened.close()


def left_by(runner: ResumableRunner, *statements: str) -> Path:
    query = runner.open(pipeline(*statements))
    query.advance(records(0, 8))
    return query.checkpoint


@pytest.fixture(scope="module")
def original(runner: ResumableRunner) -> Path:
    return left_by(runner, SUM)


@pytest.fixture
def checkpoint(original: Path) -> Iterator[Path]:
    """A checkpoint to damage, in the folder where Spark wrote it, because its files contain their path."""
    kept = original.with_name("kept")
    shutil.copytree(original, kept)
    yield original
    shutil.rmtree(original)
    kept.rename(original)


def refusal(
    runner: ResumableRunner, checkpoint: Path, *statements: str, pages: int = 1, tasks: Sequence[int] | None = None
) -> str:
    """The message of the refusal, after a check that the checkpoint did not change."""
    before = contents(checkpoint)
    with pytest.raises(CheckpointError) as caught:
        check_start(lambda: runner.spark, pipeline(*statements), checkpoint, pages=pages, tasks=tasks)
    assert contents(checkpoint) == before
    assert str(checkpoint) in caught.value.message
    assert "new checkpoint" in (caught.value.hint or "")
    return caught.value.message


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_query_that_wrote_it_resumes(runner: ResumableRunner, original: Path) -> None:
    check_start(lambda: runner.spark, pipeline(SUM), original)
    resumed = resume_copy(runner, pipeline(SUM), original, records(0, 8))
    assert [record.value for record in resumed.advance(records(8, 9)).records] == [b'{"N":12}']


@pytest.mark.parametrize(
    ("edited", "change"),
    [
        ("CREATE TABLE T AS SELECT K, SUM(V) AS N FROM S WHERE V > 2 GROUP BY K;", "streamFilterV1"),
        ("CREATE TABLE T AS SELECT K, SUM(V * 2) AS N FROM S GROUP BY K;", r"V \* 2"),
        ("CREATE TABLE T AS SELECT K, MAX(V) AS N FROM S GROUP BY K;", r"MAX\(V\)"),
        (
            "CREATE TABLE T AS SELECT K, SUM(V) AS N FROM S WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY K;",
            "streamWindowedAggregateV1",
        ),
        ("CREATE STREAM T AS SELECT K, V AS N FROM S;", "streamSinkV1"),
    ],
)
def test_an_edited_query_is_refused(runner: ResumableRunner, original: Path, edited: str, change: str) -> None:
    message = refusal(runner, original, edited)
    assert re.search(
        rf"(?s)the query C[ST]AS_T_0 cannot resume from .* another plan wrote it; changed:.*{change}", message
    )


def test_a_group_is_refused_for_one_of_its_queries(runner: ResumableRunner) -> None:
    both = (SUM, "CREATE STREAM U AS SELECT K, V FROM S WHERE V > 1;")
    checkpoint = left_by(runner, *both)
    check_start(lambda: runner.spark, pipeline(*both), checkpoint)
    message = refusal(runner, checkpoint, SUM, "CREATE STREAM U AS SELECT K, V FROM S WHERE V > 7;")
    assert re.search(r"(?s)queries CTAS_T_0, CSAS_U_0 cannot .*V > 1.*V > 7", message)


def test_other_numbers_of_pages_and_partitions_are_refused(runner: ResumableRunner, original: Path) -> None:
    assert "its tasks have 1 pages, and those of the query 4" in refusal(runner, original, SUM, pages=4)
    assert "topics with 1 partitions, and the query reads 3" in refusal(runner, original, SUM, tasks=[3])


def test_the_state_of_a_later_spark_is_refused(
    runner: ResumableRunner, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrel_sql.spark.checkpoint.metadata.minor_release", lambda: "4.2")
    said = "Spark 4.3 wrote its state, which an earlier release may misread; this is 4.2"
    assert said in refusal(runner, original, SUM)


def test_the_state_of_an_earlier_spark_goes_on(runner: ResumableRunner, checkpoint: Path) -> None:
    file = checkpoint / "kestrel.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "spark": "4.2"}), encoding="utf-8")
    check_start(lambda: runner.spark, pipeline(SUM), checkpoint, pages=1)
    assert "spark" not in json.loads(file.read_text())


def test_a_replaced_plan_must_have_the_same_operators(
    runner: ResumableRunner, original: Path, checkpoint: Path
) -> None:
    check_start(
        lambda: runner.spark,
        pipeline("CREATE TABLE T AS SELECT K, SUM(V) AS N FROM S WHERE V > 2 GROUP BY K;"),
        checkpoint,
        replaced=True,
    )
    other = pipeline("CREATE TABLE T AS SELECT V, COUNT(*) AS N FROM S GROUP BY V;")
    with pytest.raises(
        CheckpointError,
        match=r"(?s)CTAS_T_0 .* contains the state of level 1: .*VARCHAR|STRING.* needs that of level 1",
    ):
        check_start(lambda: runner.spark, other, checkpoint, replaced=True)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("{", "kestrel.json cannot be read"),
        ("[]", "has layout None, written by Kestrel of an unknown release"),
        (
            '{"layout": 99, "release": "9.0"}',
            "has layout 99, written by Kestrel 9.0; Kestrel .* reads layout 2",
        ),
        ('{"layout": 1, "release": "0.1"}', "has layout 1, written by Kestrel 0.1"),
        ('{"layout": 2, "release": "0.1"}', "kestrel.json is damaged"),
    ],
)
def test_the_metadata_of_another_release_is_refused(
    runner: ResumableRunner, checkpoint: Path, file: str, said: str
) -> None:
    (checkpoint / "kestrel.json").write_text(file)
    assert re.search(said, refusal(runner, checkpoint, SUM))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("release", 5),
        ("plans", {}),
        ("plans", ["x"]),
        ("operators", ["x"]),
        ("operators", [[5]]),
        ("pages", "1"),
        ("pages", True),
        ("tasks", 1),
        ("tasks", ["1"]),
        ("has_homes", "no"),
    ],
)
@pytest.mark.rules("E12.10")
def test_metadata_with_a_wrong_type_is_refused_by_name(original: Path, tmp_path: Path, member: str, value: Any) -> None:
    document = json.loads((original / "kestrel.json").read_text())
    (tmp_path / "kestrel.json").write_text(json.dumps({**document, member: value}))
    with pytest.raises(CheckpointError, match=rf"kestrel\.json is damaged: {member} is "):
        read_metadata(tmp_path)


def test_a_plan_of_a_newer_release_is_refused(runner: ResumableRunner, checkpoint: Path) -> None:
    file = checkpoint / "kestrel.json"
    file.write_text(file.read_text().replace("streamSourceV1", "streamSourceV9"))
    assert "cannot be read" in refusal(runner, checkpoint, SUM)


def test_a_checkpoint_without_metadata_is_refused(runner: ResumableRunner, checkpoint: Path) -> None:
    (checkpoint / "kestrel.json").unlink()
    assert "it has no kestrel.json" in refusal(runner, checkpoint, SUM)


def test_pages_of_another_plan_than_that_of_the_metadata_are_refused(runner: ResumableRunner, checkpoint: Path) -> None:
    other = "CREATE TABLE T AS SELECT V, COUNT(*) AS N FROM S GROUP BY V;"
    write_metadata(checkpoint, CheckpointMetadata.of(pipeline(other), 1, [1]))
    assert "page 0 of task 0 of level 1: another plan wrote the checkpoint" in refusal(runner, checkpoint, other)


@pytest.mark.parametrize("named", [{}, {"plan": 5}, {"plan": [5]}])
@pytest.mark.rules("E12.10")
def test_a_page_that_does_not_say_whose_state_it_is_is_refused(named: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="it does not name its operators"):
        load_page(dump_state(named), pipeline(SUM).level(1).fingerprint())


def test_states_without_progress_are_refused(runner: ResumableRunner, checkpoint: Path) -> None:
    for folder in ("offsets", "commits"):
        shutil.rmtree(checkpoint / folder)
    assert "contains state, but no log of the batches that wrote it" in refusal(runner, checkpoint, SUM)


def test_a_state_that_is_gone_is_refused(runner: ResumableRunner, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "state")
    assert "contains the state of 0 levels of operators, and the query has 1" in refusal(runner, checkpoint, SUM)


def test_a_damaged_file_of_the_state_is_refused(runner: ResumableRunner, checkpoint: Path) -> None:
    damaged = 0
    for file in (checkpoint / "state" / "0").glob("*/[!_.]*"):
        if file.suffix in (".zip", ".changelog") and file.is_file():
            file.write_bytes(b"no state")
            damaged += 1
    assert damaged
    assert "the state of level 1 cannot be read" in refusal(runner, checkpoint, SUM)


@pytest.mark.rules("E12.10")
def test_an_older_changelog_in_the_place_of_a_later_one_is_refused(runner: ResumableRunner) -> None:
    changelogs = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    runner.spark.conf.set(changelogs, "true")
    query = runner.open(pipeline(SUM))
    for at in range(5):
        query.advance(records(at, at + 1))
    runner.spark.conf.unset(changelogs)
    check_start(lambda: runner.spark, pipeline(SUM), query.checkpoint)
    partition = query.checkpoint / "state" / "0" / "0"
    shutil.copyfile(partition / "2.changelog", partition / "5.changelog")
    assert (
        "partition 0 of the state of level 1: 5.changelog is that of batch 1 and not that of batch 4; restore the file"
    ) in refusal(runner, query.checkpoint, SUM)


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        pytest.param(b"", "is damaged: it is empty", marks=pytest.mark.nightly),
        (b"\x63\x80", "has version 99; this release reads 1 to 5"),
        pytest.param(b"\x01\xc1", "is damaged", marks=pytest.mark.nightly),
        pytest.param(b"\x01\x90", "is damaged: expected a dict, got list", marks=pytest.mark.nightly),
    ],
)
def test_a_page_that_does_not_decode_is_refused(
    runner: ResumableRunner, monkeypatch: pytest.MonkeyPatch, blob: bytes, said: str
) -> None:
    checkpoint = left_by_vandal(runner, monkeypatch, blob)
    message = refusal(runner, checkpoint, SUM)
    assert "page 0 of task 0 of level 1: the stored state of an operator" in message
    assert said in message


@pytest.mark.rules("E12.10")
def test_groups_in_columns_that_do_not_fit_are_refused() -> None:
    level = pipeline(SUM).level(1)
    ((relation, (shape, copied)),) = level.groups().items()
    check = page_check(level.fingerprint(), tasks=1, pages=1, has_task_pages=False, groups=level.groups())

    def flaws(shape: Sequence[int], copied: Sequence[pa.DataType]) -> list[str]:
        fresh = [None, [None] * len(copied), [[0] * each if each > 1 else 0 for each in shape]]
        groups = {"groups": GroupColumns.of({}, fresh, copied)}
        blob = dump_state({"plan": level.fingerprint(), str(relation): groups})
        (found,) = check(iter([pa.RecordBatch.from_pydict({"task": [0], "page": [0], "blob": [blob]})]))
        return [flaw for flaw in found.column("flaw").to_pylist() if flaw is not None]

    assert flaws(shape, copied) == []
    for wrong in (
        ([2], copied),
        ([*shape, 1], copied),
        (shape, [*copied, pa.string()]),
        (shape, copied[1:]),
        (shape, [pa.float64(), *copied[1:]]),
    ):
        (flaw,) = flaws(*wrong)
        assert "does not fit the query: its groups have aggregates of" in flaw


def left_by_vandal(runner: ResumableRunner, monkeypatch: pytest.MonkeyPatch, blob: bytes) -> Path:
    """Write `blob` into the pages of a checkpoint."""

    class Vandal(Host):
        def _handled(self, rows: Any, key: Any) -> Iterator[bytes]:
            yield from ()
            self._state.update((blob,))

    def apply(rows: Any, level: Level, partitions: Sequence[int], **more: Any) -> Any:
        from kestrel_sql.spark.state.packing import PACKED, UNPACKED, pack_batches, unpack_batches

        packed = rows.through(pack_batches(level, partitions)).frame(PACKED)
        handled = packed.groupBy("task", "page").transformWithState(Vandal(level), UNPACKED, "Update", "None")
        return Passes(handled).through(unpack_batches(level))

    with monkeypatch.context() as patched:
        patched.setattr(pipelines, "apply_level", apply)
        return left_by(runner, SUM)


def test_a_killed_first_batch_leaves_nothing_to_check(runner: ResumableRunner, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")
    check_start(lambda: runner.spark, pipeline(SUM), checkpoint)


def test_the_metadata_is_complete_and_names_no_query(original: Path) -> None:
    document = json.loads((original / "kestrel.json").read_text())
    own = CheckpointMetadata.of(pipeline(SUM), 1, [1])
    numbers = {"pages": 1, "tasks": [1], "has_homes": False}
    assert document == {"layout": 2, "release": own.release, "plans": own.plans, "operators": own.operators, **numbers}
    assert "CTAS_T_0" not in json.dumps([plan["queryPlan"]["queryId"] for plan in document["plans"]])


def test_a_checkpoint_whose_tasks_have_no_page_of_their_own_is_not_one_of_those_that_do(
    runner: ResumableRunner, checkpoint: Path
) -> None:
    with pytest.raises(CheckpointError, match="in another page"):
        check_start(lambda: runner.spark, pipeline(SUM), checkpoint, has_task_pages=True)


def test_a_checkpoint_whose_pages_are_spread_is_not_one_whose_pages_are_placed(
    runner: ResumableRunner, checkpoint: Path
) -> None:
    with pytest.raises(CheckpointError, match="in other pages"):
        check_start(lambda: runner.spark, pipeline(SUM), checkpoint, pages_by_task=True)


def test_placed_pages_are_those_of_their_task() -> None:
    level = pipeline(SUM).level(1)
    check = page_check(
        level.fingerprint(), tasks=2, pages=3, has_task_pages=True, pages_by_task=True, groups=level.groups()
    )
    page = dump_state({PLAN: level.fingerprint()})
    rows = [(task, number, page) for task in (0, 1) for number in task_pages(0, 4)]
    columns = [pa.array([row[at] for row in rows]) for at in range(3)]
    (checked,) = check(iter([pa.RecordBatch.from_arrays(columns, ["task", "page", "blob"])]))
    assert [flaw is None for flaw in checked.column("flaw").to_pylist()] == [True] * 3 + [False] * 5


def test_a_checkpoint_may_be_given_by_its_uri() -> None:
    assert folder_of("file:///a%20b/c") == folder_of(Path("/a b/c")) == Path("/a b/c")
