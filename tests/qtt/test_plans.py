from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, InputRecord
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.load import load
from kestrel_qtt.plans.spec import case_document, write_json
from kestrel_qtt.plans.store import (
    PlanStoreError,
    case_folder,
    check,
    fields_used,
    find_plans,
    load_stored,
    needs_recording,
    newest_plans,
    record,
)

ID = "test-cases/filters/like.yaml::keeps-cows[AVRO]"
CASE = {
    "name": "like - keeps cows - AVRO",
    "statements": ["CREATE ..."],
    "inputs": [{"topic": "t", "value": Decimal("1.10")}],
}
KSQLDB_PLANS = Path(__file__).parents[2].parent / "shared" / "ksqldb" / "historic-plans"


def plan(text: str = "SELECT 1", sink: str = "OUT", **configs: str) -> dict[str, Any]:
    return {
        "plan": [{"@type": "ksqlPlanV1", "statementText": text, "ddlCommand": {"sourceName": sink}}],
        "configs": configs,
    }


def keep(
    root: Path, version: str = "1.0.0", sink: str = "OUT", case_id: str = ID, case: dict[str, Any] | None = None
) -> Any:
    return record(root, case_id, version, json.dumps(plan(sink=sink)), case or CASE)


def put(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan()))
    (folder / "spec.json").write_text(json.dumps({"testCase": CASE}, default=str))


def test_a_recorded_plan_is_found_and_loaded(tmp_path: Path) -> None:
    stored = keep(tmp_path)
    assert stored.folder == tmp_path / "filters" / "like" / "keeps-cows-avro" / "1.0.0"
    assert find_plans(tmp_path) == [stored]
    text, spec = load_stored(stored)
    assert json.loads(text) == plan()
    assert spec["testCase"] == CASE
    assert (spec["version"], spec["path"], spec["schemas"]) == ("1.0.0", "test-cases/filters/like.yaml", {})


@pytest.mark.rules("Q16.1")
def test_our_layout_and_ksqldbs_are_found_oldest_first(tmp_path: Path) -> None:
    for name in ("10.0.0", "9.1.0", "9.1.0.dev2", "6.0.0_20", "6.0.0_3"):
        put(tmp_path / "case" / name)
    plans = find_plans(tmp_path)
    assert [plan.folder.name for plan in plans] == ["6.0.0_3", "6.0.0_20", "9.1.0.dev2", "9.1.0", "10.0.0"]
    assert newest_plans(reversed(plans))[tmp_path / "case"].version == "10.0.0"
    assert find_plans(tmp_path / "case" / "6.0.0_3")[0].timestamp == 3
    assert find_plans(tmp_path / "case") == plans


def test_a_foreign_folder_name_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "case" / "latest")
    with pytest.raises(PlanStoreError, match="latest"):
        find_plans(tmp_path)


def test_a_plan_without_spec_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "case" / "1.0.0")
    (tmp_path / "case" / "1.0.0" / "spec.json").unlink()
    with pytest.raises(PlanStoreError, match=r"spec\.json"):
        find_plans(tmp_path)


@pytest.mark.rules("Q16.1", "Q16.3")
@pytest.mark.parametrize(
    ("fresh", "differs"),
    [
        (plan(), False),
        (plan(text="SELECT 2"), False),
        (plan(sink="OTHER"), True),
        (plan(**{"state.dir": "/x"}), False),
        (plan(**{"ksql.nested.error.set.null": "false"}), False),
        (plan(**{"ksql.nested.error.set.null": "true"}), True),
        ({}, True),
    ],
)
def test_only_what_counts_is_compared(fresh: dict[str, Any], differs: bool) -> None:
    assert needs_recording(fresh, plan()) is differs


def test_a_case_without_a_plan_needs_one() -> None:
    assert needs_recording(plan(), None)


def test_numbers_are_compared_by_value() -> None:
    assert not needs_recording(parse_json('{"plan": [{"size": 11}]}'), parse_json('{"plan": [{"size": 11.000000000}]}'))


def test_an_unchanged_plan_is_not_recorded_again(tmp_path: Path) -> None:
    keep(tmp_path)
    assert keep(tmp_path, "1.1.0") is None
    assert keep(tmp_path, "1.1.0", sink="NEW").version == "1.1.0"
    assert [plan.version for plan in find_plans(tmp_path)] == ["1.0.0", "1.1.0"]


@pytest.mark.rules("Q16.1")
@pytest.mark.parametrize("version", ["1.0.0", "0.9.0"])
def test_a_changed_plan_needs_a_higher_version(tmp_path: Path, version: str) -> None:
    stored = keep(tmp_path)
    before = stored.plan_file.read_bytes(), stored.spec_file.read_bytes()
    with pytest.raises(PlanStoreError, match=r"above 1\.0\.0"):
        keep(tmp_path, version, sink="NEW")
    assert (stored.plan_file.read_bytes(), stored.spec_file.read_bytes()) == before


def test_a_version_is_a_version(tmp_path: Path) -> None:
    for version in ("../x", "", "latest", "1"):
        with pytest.raises(PlanStoreError):
            keep(tmp_path, version)
    assert not list(tmp_path.iterdir())


def test_two_cases_do_not_share_a_folder(tmp_path: Path) -> None:
    keep(tmp_path)
    with pytest.raises(PlanStoreError, match="belongs to the case"):
        keep(tmp_path, "2.0.0", case_id="test-cases/filters/like.json::keeps-cows[AVRO]")


@pytest.mark.rules("Q16.5")
def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    stored = keep(tmp_path)
    stored.plan_file.write_text(json.dumps(plan(text="edited")))
    with pytest.raises(PlanStoreError, match="never edited"):
        load_stored(stored)
    assert any("never edited" in problem for problem in check(tmp_path, {}))


@pytest.mark.rules("Q16.5")
def test_check_names_what_is_missing_and_what_changed(tmp_path: Path) -> None:
    keep(tmp_path)
    assert check(tmp_path, {ID: plan(text="other text")}) == []
    assert "differs from the newest stored one, 1.0.0" in check(tmp_path, {ID: plan(sink="NEW")})[0]
    assert "no plan is stored" in check(tmp_path, {"test-cases/x.yaml::other": plan()})[0]


def test_check_looks_at_the_newest_only(tmp_path: Path) -> None:
    keep(tmp_path)
    keep(tmp_path, "1.1.0", sink="NEW")
    assert check(tmp_path, {ID: plan(sink="NEW")}) == []
    assert check(tmp_path, {ID: plan()})


def test_check_survives_broken_files(tmp_path: Path) -> None:
    stored = keep(tmp_path)
    stored.spec_file.write_text("{")
    put(tmp_path / "case" / "latest")
    assert len(check(tmp_path, {})) == 2


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr("kestrel_qtt.plans.store.os.rename", refuse)
    with pytest.raises(PlanStoreError, match="full"):
        keep(tmp_path)
    assert not list(tmp_path.rglob("*.json"))


def test_folder_names_are_short_and_plain() -> None:
    long = case_folder("test-cases/a.yaml::" + "x" * 300)
    assert len(long.rpartition("/")[2]) <= 120
    assert long != case_folder("test-cases/a.yaml::" + "x" * 301)
    assert case_folder("test-cases/joins/a b.json::c[JSON][true]") == "joins/a-b/c-json-true"
    assert case_folder("::..") == "case/case"


def test_the_fields_a_plan_uses() -> None:
    source = {"@type": "streamSourceV1", "topicName": "t", "timestampColumn": None}
    sink = {"@type": "streamSinkV1", "source": source}
    document: dict[str, Any] = {"plan": [{"queryPlan": {"physicalPlan": sink}}], "configs": {}}
    assert fields_used(document) == {
        "streamSinkV1",
        "streamSinkV1.source",
        "streamSourceV1",
        "streamSourceV1.topicName",
    }


FULL = """
{"tests": [{
  "name": "feeds the herd",
  "statements": ["CREATE STREAM HERD ...;"],
  "properties": {"ksql.nested.error.set.null": false},
  "topics": [{"name": "herd", "partitions": 2, "valueFormat": "AVRO", "valueSchema": {"type": "int"}}],
  "inputs": [
    {"topic": "herd", "key": "k", "value": 1.10, "timestamp": 7, "headers": [{"KEY": "h", "VALUE": "AAE="}, {"KEY": "n", "VALUE": null}]},
    {"topic": "herd", "value": null, "partition": 1, "offset": 3}
  ],
  "outputs": [{"topic": "OUT", "key": 0, "value": "", "timestamp": 0, "window": {"start": 0, "end": 5, "type": "time"}}],
  "post": {
    "sources": [{"name": "OUT", "type": "stream", "schema": "`A` INTEGER", "keyFormat": {"format": "KAFKA"}, "keyFeatures": []}],
    "topics": {"blacklist": ".*-repartition", "topics": [
      {"name": "OUT", "keyFormat": {"format": "KAFKA", "windowInfo": {"type": "TUMBLING", "size": 0.005}},
       "valueFormat": {"format": "JSON"}}
    ]}
  }
}]}
"""


def stored_again(case: Case, folder: Path) -> Case:
    spec = folder / "historic-plans" / "case" / "1.0.0" / "spec.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(write_json({"testCase": case_document(case)}))
    spec.with_name("plan.json").write_text("{}")
    loaded = load(spec)
    assert loaded.errors == ()
    return loaded.cases[0]


def compared(case: Case) -> list[Any]:
    outputs = None if case.outputs is None else [replace(record, line=None) for record in case.outputs]
    inputs = [replace(record, line=None) for record in case.inputs]
    return [case.name, case.statements, inputs, outputs, case.topics, dict(case.properties), case.post]


def test_a_case_survives_its_spec(tmp_path: Path) -> None:
    file = tmp_path / "herd.json"
    file.write_text(FULL)
    loaded = load(file)
    assert loaded.errors == ()
    assert compared(stored_again(loaded.cases[0], tmp_path)) == compared(loaded.cases[0])


def test_asserted_silence_survives(tmp_path: Path) -> None:
    case = Case(
        id="x", file=tmp_path, line=1, name="n", statements=("s",), outputs=(), inputs=(InputRecord(topic="t"),)
    )
    assert case_document(case)["outputs"] == []
    assert "outputs" not in case_document(replace(case, outputs=None))


def test_numbers_and_odd_texts_survive_the_writer() -> None:
    document = {
        "a": Decimal("1.10"),
        "b": Decimal("1E-9"),
        "c": 10**30,
        "d": "\ud800 \u00fc \u2028",
        "e": [],
        "f": {},
        "g": [{"h": None}],
    }
    assert parse_json(write_json(document)) == document
    write_json(document).encode()


@pytest.mark.conformance
@pytest.mark.skipif(not KSQLDB_PLANS.is_dir(), reason=f"ksqlDB's plans are not there: {KSQLDB_PLANS}")
def test_every_plan_of_ksqldb_is_found_and_loads() -> None:
    plans = find_plans(KSQLDB_PLANS)
    assert len(plans) == 2470
    for stored in plans:
        _, spec = load_stored(stored)
        assert (spec["version"], spec["timestamp"]) == (stored.version, stored.timestamp)
