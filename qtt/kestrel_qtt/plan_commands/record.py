"""The commands of `qtt plans` on the store: record, check, prove, compact, checkpoint and resume."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.discovery import PLAN_FILE, SPEC_FILE, case_file, find_files, stored_spec
from kestrel_qtt.cases.known_gaps import NO_GAPS, Ledger
from kestrel_qtt.cases.model import Case, CaseFileError, Json, Status
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.cases.selection import Selection
from kestrel_qtt.drivers.driver import PlanningDriver, PlanningError, RunOptions
from kestrel_qtt.load import Loaded, load, load_all, load_stored
from kestrel_qtt.plan_commands.compact import choose
from kestrel_qtt.plans import checkpoints as plan_checkpoints
from kestrel_qtt.plans import store as plans
from kestrel_qtt.plans.spec import case_document
from kestrel_qtt.runner import run_cases


class Findings(msgspec.Struct, frozen=True):
    """The messages of a command: what it did, and what is wrong."""

    done: list[str] = []
    problems: list[str] = []

    @contextmanager
    def of_one(self) -> Iterator[None]:
        """Make a problem of an error about one plan, which stops no other."""
        try:
            yield
        except (plans.PlanStoreError, CaseFileError) as error:
            self.problems.append(str(error))


def stored_cases(paths: Sequence[Path], functions: Sequence[Path] = (), ledgers: Sequence[Path] = ()) -> Loaded:
    """Load the stored plans below `paths` as cases. A plan that was edited or cannot be read is an error."""
    found = [(path, each) for path in paths for each in plans.scan_plans(path)]
    specs = (stored_spec(each.spec_file, path) for path, each in found if isinstance(each, plans.StoredPlan))
    loaded = load_all(specs, functions, ledgers)
    wrong = [CaseFileError(path, 1, str(each)) for path, each in found if isinstance(each, plans.PlanStoreError)]
    return replace(loaded, errors=(*loaded.errors, *wrong))


def application_version(folder: Path) -> str | None:
    """Return the version in the nearest `pyproject.toml` above the store `folder`; None if it gives none."""
    for above in (folder.absolute(), *folder.absolute().parents):
        if (above / "pyproject.toml").is_file():
            try:
                project = tomllib.loads((above / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
            except (OSError, ValueError):
                return None
            return str(project["version"]) if "version" in project else None
    return None


def record_plans(
    cases: Sequence[Case], driver: PlanningDriver, folder: Path, version: str | None = None, gaps: Ledger = NO_GAPS
) -> Findings:
    """Record new and changed plans below `folder` under a version of the application.

    The `version` is by default that of `application_version`, with a number appended if the newest plan of the case has
    it already, else the one after that of the newest plan. A case
    that cannot be planned or stored, or that does not pass, is a problem and stops no other.
    """
    application = application_version(folder)
    found, fresh = Findings(), dict[str, str]()
    for case in cases:
        with found.of_one():
            document = _planned(case, driver)
            if not plans.is_recorded(folder, case.id, document):
                fresh[case.id] = document
    for result in run_cases([case for case in cases if case.id in fresh], driver, RunOptions(), gaps=gaps):
        case = result.case
        if result.status in (Status.FAILED, Status.ERROR):
            problem = f"{case.id}: not recorded, it does not pass ({case.file}:{case.line})\n  {result.reason}"
            found.problems.append(problem)
            continue
        with found.of_one():
            own = plans.version_above(folder, case.id, application) if application and not version else version
            stored = plans.record(folder, case.id, own, fresh[case.id], case_document(case))
            if stored is not None:
                found.done.append(f"recorded {stored.folder}")
    return found


def check_plans(cases: Sequence[Case], driver: PlanningDriver, folder: Path) -> Findings:
    """Compare the plans below `folder` with today's cases. A case that cannot be planned is a problem too."""
    found, fresh = Findings(), dict[str, Json]()
    for case in cases:
        with found.of_one():
            fresh[case.id] = parse_json(_planned(case, driver))
    found.problems.extend(plans.check(folder, fresh))
    return found


def _planned(case: Case, driver: PlanningDriver) -> str:
    """The plan of a case; raise PlanStoreError."""
    try:
        return driver.plan_documents(case)
    except PlanningError as error:
        message = f"{case.id}: cannot be planned ({case.file}:{case.line})\n  {error}"
        raise plans.PlanStoreError(message) from error


def prove_plans(cases: Sequence[Case], driver: PlanningDriver) -> Findings:
    """Compare our stored plans with today's codec and planner, and run those that differ."""
    from kestrel_qtt.plan_commands.prove import compare, run_today

    found = [compare(stored, case, driver) for case in cases for stored in plans.find_plans(case.file.parent)]
    problems = [each.problem for each in found if each.problem]
    differing = sum(each.differs for each in found)
    excused = sum(bool(each.excuse) for each in found)
    summary = (
        f"{len(found)} plans survive a round trip; "
        f"{differing} differ from today's, {excused} of them for a stated reason"
    )
    return Findings([] if problems else [summary], [*problems, *run_today(found, driver)])


def compact_plans(paths: Sequence[Path], *, dry_run: bool) -> Findings:
    """Remove the plans below `paths` that equal a plan that stays; raise PlanStoreError."""
    from kestrel_qtt.plan_commands.text import plan_facts, plan_meaning

    decisions = choose([stored for path in paths for stored in plans.find_plans(path)], plan_facts, plan_meaning)
    newest = plans.newest_plans(decision.plan for decision in decisions).values()
    done = []
    for decision in decisions:
        if decision.equal_to is not None:
            done.append(
                f"{'would remove' if dry_run else 'removed'} {decision.plan.folder}: it equals"
                f" {decision.equal_to.version}"
            )
            if not dry_run:
                plans.remove(decision.plan)
        elif decision.plan not in newest:
            done.append(f"kept {decision.plan.folder}: {decision.reason}")
    return Findings([*done, f"{sum(v.equal_to is None for v in decisions)} of {len(decisions)} plans stay"])


def store_checkpoints(cases: Sequence[Case], after: int | None) -> Findings:
    """Store a checkpoint beside the plan of each case.

    A case without state, or whose state has no effect, is a problem.
    """
    from kestrel_qtt.plan_commands.resume import Checkpoints

    found = Findings()
    with closing(Checkpoints()) as engine:
        for case in cases:
            with found.of_one():
                path = plan_checkpoints.write(case.file.parent, engine.freeze(case, after))
                found.done.append(f"stored {path}, {path.stat().st_size} bytes")
    return found


def resume_checkpoints(paths: Sequence[Path], functions: Sequence[Path] = ()) -> Findings:
    """Resume from every checkpoint below `paths`. Records that differ from those of the case are a problem."""
    from kestrel_qtt.plan_commands.resume import Checkpoints

    found = Findings()
    with closing(Checkpoints()) as engine:
        for file in (file for path in paths for file in plan_checkpoints.find(path)):
            with found.of_one():
                case = load_stored(case_file(file.with_name(SPEC_FILE)))
                case = replace(case, functions=(*case.functions, *functions))
                result = engine.resume(case, plan_checkpoints.read(file))
                where = found.done if result.status is Status.PASSED else found.problems
                where.append(f"{result.status.value} {file}\n  {result.reason}".rstrip())
    return found


class PlanText(msgspec.Struct, frozen=True):
    """The text of a plan.json, its name in errors, and the sources of the functions that it may call."""

    name: str
    text: str
    functions: tuple[str | Path, ...]


def plan_texts(
    paths: Sequence[Path], selection: Selection, driver: PlanningDriver, functions: Sequence[Path] = ()
) -> Iterator[PlanText]:
    """Yield the plans to explain: plan files are read, cases are planned; raise PlanStoreError."""
    files = [path for path in paths if path.name == PLAN_FILE or (path / PLAN_FILE).is_file()]
    for file in files:
        spec = (file if file.is_dir() else file.parent) / SPEC_FILE
        known = load(spec, functions).cases if spec.is_file() else ()
        yield PlanText(str(file), plans.read_plan(file), known[0].functions if known else tuple(functions))
    others = [path for path in paths if path not in files]
    cases = selection.of(load_all(find_files(others), functions).cases) if others else []
    for case in cases:
        yield PlanText(case.id, _planned(case, driver), case.functions)
