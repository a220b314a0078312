"""Tests the checkpoint folder: its manifest, its lock, and the offsets from which a query resumes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.offsets import Topic
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest, StoredQuery
from kestrel_sql.kafka.run.topic_changes import changes

QUERY = StoredQuery(
    name="CREATE STREAM OUT",
    id="CSAS_OUT_0",
    statement="CREATE STREAM OUT AS SELECT * FROM S;",
    plan={"@type": "ksqlPlanV1"},
    settings={"ksql.timestamp.throw.on.invalid": "true"},
    reading="merged",
    sources={"in": Topic("in", "id-1", 2)},
    start={("in", 0): 0, ("in", 1): 7},
    pages=1,
)


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    manifest = Manifest().next_run().with_query(QUERY).with_done("INSERT INTO S VALUES (1);")
    folder.save(manifest)
    assert folder.load() == manifest
    assert folder.load().next_run().runs == 2


def test_older_code_refuses_the_manifest_of_a_query_whose_checkpoint_it_does_not_find(tmp_path: Path) -> None:
    """It would find no state and begin from the start, or write what a level has written already."""
    folder = CheckpointFolder(tmp_path)
    rescaled, shared = replace(QUERY, rescaled=3), replace(QUERY, shared="SHARED_1_1_in")
    writing, placed = replace(QUERY, level_writes=True), replace(QUERY, pages_by_task=True)
    for query, format_, more in (
        (QUERY, 1, set()),
        (rescaled, 2, {"rescaled"}),
        (shared, 3, {"shared"}),
        (writing, 5, {"level_writes"}),
        (placed, 5, {"pages_by_task"}),
    ):
        folder.save(Manifest().with_query(query))
        document = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
        members = {"rescaled", "shared", "level_writes", "pages_by_task"} & {*document["queries"][0]}
        assert (document["format"], members) == (format_, more)
        assert folder.load().queries == {query.name: query}
    assert folder.folder_of(rescaled) == tmp_path / "rescaled" / "3" / QUERY.id
    assert folder.folder_of(shared) == tmp_path / "queries" / "SHARED_1_1_in"


def test_a_new_folder_has_an_empty_manifest(tmp_path: Path) -> None:
    first, second = (CheckpointFolder(tmp_path / "new").load() for _ in range(2))
    assert (first.runs, first.queries) == (0, {})
    assert first.application != second.application


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', '"x"'])
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(EngineError, match=r"manifest\.json"):
        CheckpointFolder(tmp_path).load()


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("runs", "1"),
        ("runs", True),
        ("application", None),
        ("queries", {"a": 1}),
        ("queries", [5]),
        ("done", [1]),
        ("queries.pages", "1"),
        ("queries.plan", []),
        ("queries.settings", {"a": 1}),
        ("queries.sources", [{"name": "in", "id": "x", "partitions": "2"}]),
        ("queries.sources", [7]),
        ("queries.start", {"in": {"0": "0"}}),
        ("queries.start", {"in": {"x": 0}}),
        ("queries.unknown", 1),
    ],
)
@pytest.mark.rules("E12.10")
def test_a_manifest_with_a_wrong_type_is_refused_by_name(tmp_path: Path, member: str, value: object) -> None:
    folder, file = CheckpointFolder(tmp_path), tmp_path / "manifest.json"
    folder.save(Manifest().with_query(QUERY))
    document = json.loads(file.read_text(encoding="utf-8"))
    *above, name = member.split(".")
    (document["queries"][0] if above else document)[name] = value
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(EngineError, match=r"manifest\.json is damaged: "):
        folder.load()


def test_a_second_process_does_not_get_the_lock(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from kestrel_sql.kafka.run.manifest import CheckpointFolder; from kestrel_sql.errors"
        " import EngineError\ntry:\n  with CheckpointFolder(pathlib.Path(sys.argv[1])).locked(): print('got"
        " it')\nexcept EngineError as error: print(error.message)"
    )

    def other() -> str:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
        ).stdout

    with CheckpointFolder(tmp_path).locked():
        refused = other()
        assert "in use by another kestrel run (process" in refused
        assert str(tmp_path) in refused
    assert other() == "got it\n"


def test_a_query_resumes_after_the_last_committed_batch(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    query, logs = replace(QUERY, id="Q"), tmp_path / "queries" / "Q"
    assert folder.next_offsets(query) is None
    for name in ("offsets", "commits"):
        (logs / name).mkdir(parents=True)
    (logs / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    for number in (0, 1, 2):
        offsets = json.dumps({"in": {"0": 10 * (number + 1)}})
        (logs / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')
    assert folder.next_offsets(query) is None
    (logs / "commits" / "0").write_text("v1\n{}")
    (logs / "commits" / "1").write_text("v1\n{}")
    assert folder.next_offsets(query) == {("in", 0): 20}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"in": Topic("in", "id-1", 2)}, None),
        ({}, "in, which CSAS_OUT_0 reads, was deleted"),
        ({"in": Topic("in", "id-2", 2)}, "created again"),
        ({"in": Topic("in", "id-1", 3)}, "has 3 partitions instead of 2"),
    ],
)
def test_a_change_of_a_topic_is_named(found: dict[str, Topic], said: str | None) -> None:
    flaws = list(changes(QUERY, found))
    assert (said is None and not flaws) or (said is not None and said in flaws[0])
