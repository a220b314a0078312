"""What `qtt plans` does: record plans that changed, check that none is missing, find the stored ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

from qtt import plans
from qtt.corpus import Kind, find_files
from qtt.driver import PlanningDriver
from qtt.load import Loaded, load_all
from qtt.model import Case
from qtt.plan_spec import case_document
from qtt.read_json import parse_json
from qtt.selection import select

ACTIONS: Mapping[str, str] = MappingProxyType(
    {
        "record": "store a new plan version for each case whose plan has changed",
        "check": "fail where a plan is not stored, has changed since, or was edited",
        "run": "execute stored plans, each against its own spec",
        "explain": "show plans as trees, with the Spark SQL that they become",
        "diff": "show what differs between two plans, statement texts aside",
    }
)
DISTRIBUTION = "kestrel-sql"


def stored_cases(paths: Sequence[Path]) -> Loaded:
    """Load the stored plans below `paths` as cases; one that was edited or cannot be read is an error."""
    return load_all((stored.spec_file, Kind.STORED) for path in paths for stored in plans.find_plans(path))


def record_plans(cases: Sequence[Case], driver: PlanningDriver, folder: Path) -> list[str]:
    """Record below `folder` what needs recording; one message for each plan written; raise PlanStoreError."""
    messages = []
    for case in cases:
        stored = plans.record(folder, case.id, version(DISTRIBUTION), driver.plan_documents(case), case_document(case))
        if stored is not None:
            messages.append(f"recorded {stored.folder}")
    return messages


def plan_texts(paths: Sequence[Path], expression: str | None, shard: str | None, driver: PlanningDriver) -> Iterator[tuple[str, str]]:
    """Name and text of each plan to explain: plan files are read, cases are planned; raise PlanStoreError."""
    files = [path for path in paths if path.name == plans.PLAN_FILE or (path / plans.PLAN_FILE).is_file()]
    for file in files:
        yield str(file), plans.read_plan(file)
    others = [path for path in paths if path not in files]
    cases = select(load_all(find_files(others)).cases, expression, shard) if others else []
    for case in cases:
        yield case.id, driver.plan_documents(case)


def check_plans(cases: Sequence[Case], driver: PlanningDriver, folder: Path) -> list[str]:
    """Say what is wrong with the plans below `folder`, given the cases of today."""
    return plans.check(folder, {case.id: parse_json(driver.plan_documents(case)) for case in cases})
