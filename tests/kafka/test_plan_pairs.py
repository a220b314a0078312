"""What is said of a query equals what a start decides, for pairs of stored plans of one case."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace

from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.drivers.stored_plan import execute_stored
from kestrel_qtt.plans.store import StoredPlan, find_plans
from kestrel_sql.errors import EngineError, FunctionError, RegistryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets, Topic
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.run.forecast import Action, forecast
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest
from kestrel_sql.kafka.run.resume import NamedQuery
from kestrel_sql.kafka.run.run import ProductionRun, RunSettings
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.session.session import Session

ROOT = Path(__file__).resolve().parents[2]
OURS, KSQLDBS = ROOT / "historic-plans", ROOT.parent / "shared" / "ksqldb" / "historic-plans"
_CONFIG = KafkaConfig(servers="127.0.0.1:9")
_FUNCTIONS = functions_from(["kestrel_qtt.ksqldb.corpus_functions"])
_BEGUN = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{"t":{"0":0}}'


class EveryTopic(BrokerOffsets):
    """A broker that has every topic, with four partitions and no record."""

    def topics(self, names: Iterable[str], timeout: float | None = None) -> dict[str, Topic]:
        return {name: Topic(name, "id", 4) for name in names}

    def first(self, positions: Iterable[Position]) -> dict[Position, int]:
        return dict.fromkeys(positions, 0)

    def ends(self, positions: Iterable[Position], timeout: float | None = None) -> dict[Position, int]:
        return dict.fromkeys(positions, 0)


def fail() -> None:
    raise AssertionError("there is no state, so that Spark has nothing to read")


def run_of(plan: StoredPlan, folder: CheckpointFolder) -> ProductionRun:
    """A start of the queries of a stored plan."""
    session = Session(functions=_FUNCTIONS)
    execute_stored(session, plan.plan_file, {}, {})
    return ProductionRun(
        settings=RunSettings(config=_CONFIG, checkpoint=Path(str(folder.folder))),
        session=session,
        statements=(),
        open_spark=fail,  # type: ignore[arg-type]
        say=lambda _: None,
        show=lambda _: None,
        bad=BadRecords(lambda _: None),
    )


def begun(run: ProductionRun, folder: CheckpointFolder, offsets: BrokerOffsets) -> Manifest:
    """The manifest of a run that has begun the first batch of each query."""
    manifest = Manifest()
    preparation, queries = run.preparation(folder, manifest, offsets)
    for named in queries:
        prepared = preparation.new(named)
        prepared.check(folder, run.open_spark)
        checkpoint = Path(str(folder.folder_of(prepared.stored)))
        (checkpoint / "offsets").mkdir()
        (checkpoint / "offsets" / "0").write_text(_BEGUN)
        (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid4())}))
        manifest = manifest.with_query(prepared.stored)
    return manifest


def decided(run: ProductionRun, named: NamedQuery, manifest: Manifest, folder: CheckpointFolder) -> Iterator[str]:
    """What a start refuses of a query."""
    preparation, _ = run.preparation(folder, manifest, EveryTopic(_CONFIG))
    try:
        stored = manifest.queries.get(named.name)
        prepared = preparation.new(named) if stored is None else preparation.known(named, stored)
        prepared.check(folder, run.open_spark)
    except EngineError as error:
        yield error.message


def check(before: StoredPlan, after: StoredPlan, place: Path) -> int:
    """Compare what is said of the queries of a plan with what happens to them; how many would go on."""
    folder, offsets, kept = CheckpointFolder(place), EveryTopic(_CONFIG), 0
    manifest = begun(run_of(before, folder), folder, offsets)
    run = run_of(after, folder)
    for replaces in (False, True):
        preparation, queries = run.preparation(folder, manifest, offsets)
        for plain in queries:
            named = replace(plain, replaces=replaces)
            said = forecast(run, preparation, named, manifest)
            refused = [*decided(run, named, manifest, folder)]
            assert (said.action is Action.REFUSED) == bool(refused), (after.folder, said, refused)
            assert all(text.startswith(said.why) for text in refused), (said, refused)
            kept += said.action in (Action.UNCHANGED, Action.CHANGED)
            if not replaces and said.action is Action.UNCHANGED:
                assert not said.changes
    return kept


def pairs(root: Path) -> list[tuple[StoredPlan, StoredPlan]]:
    """Each plan with itself, and each two of one case in both orders."""
    homes: dict[Path, list[StoredPlan]] = defaultdict(list)
    for plan in find_plans(root):
        homes[plan.home].append(plan)
    both = [pair for plans in homes.values() for pair in permutations(plans, 2)]
    return both + [(plan, plan) for plans in homes.values() for plan in plans]


@pytest.fixture(autouse=True)
def without_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrel_sql.kafka.run.prepare_query.check_acls", lambda *_: None)


def _check_all(found: list[tuple[StoredPlan, StoredPlan]], folder: Path) -> None:
    kept = 0
    for number, (before, after) in enumerate(found):
        # Schemas with ids of their own stand in cases; and a function is declared by ksqlDB's tests only.
        with suppress(RegistryError, FunctionError):
            kept += check(before, after, folder / str(number))
    assert kept > len(found) // 2


def test_some_pairs(tmp_path: Path) -> None:
    found = pairs(OURS)
    _check_all(found[:2] + found[2::60], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("root", [OURS, KSQLDBS], ids=["ours", "ksqldb"])
def test_all_pairs(root: Path, tmp_path: Path) -> None:
    if not root.is_dir():
        pytest.skip(f"{root} is absent")
    _check_all(pairs(root), tmp_path)
