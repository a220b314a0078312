"""What `qtt plans` does with the store: record plans that changed, check that none is missing, find the stored ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from kestrel_qtt.cases.discovery import PLAN_FILE, SPEC_FILE, case_file, find_files, stored_spec
from kestrel_qtt.cases.model import Case, CaseFileError, Json, Status
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.cases.selection import Selection
from kestrel_qtt.drivers.driver import PlanningDriver, PlanningError
from kestrel_qtt.load import Loaded, load, load_all, load_stored
from kestrel_qtt.plan_commands.compact import choose
from kestrel_qtt.plans import checkpoints as plan_checkpoints
from kestrel_qtt.plans import store as plans
from kestrel_qtt.plans.spec import case_document

DISTRIBUTION = "kestrel-sql"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a command has to tell: what it did, and what is wrong, one sentence each."""

    done: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def stored_cases(paths: Sequence[Path], functions: Sequence[Path] = (), ledgers: Sequence[Path] = ()) -> Loaded:
    """Load the stored plans below `paths` as cases; one that was edited or cannot be read is an error."""
    specs = (stored_spec(stored.spec_file, path) for path in paths for stored in plans.find_plans(path))
    return load_all(specs, functions, ledgers)


def record_plans(cases: Sequence[Case], driver: PlanningDriver, folder: Path) -> Findings:
    """Record below `folder` what needs recording; a case that cannot be planned or stored is a problem and stops no other."""
    done: list[str] = []
    problems: list[str] = []
    for case in cases:
        try:
            stored = plans.record(
                folder, case.id, version(DISTRIBUTION), driver.plan_documents(case), case_document(case)
            )
        except PlanningError as error:
            problems.append(_unplanned(case, error))
        except plans.PlanStoreError as error:
            problems.append(str(error))
        else:
            if stored is not None:
                done.append(f"recorded {stored.folder}")
    return Findings(tuple(done), tuple(problems))


def check_plans(cases: Sequence[Case], driver: PlanningDriver, folder: Path) -> Findings:
    """Say what is wrong with the plans below `folder`, given the cases of today; one that cannot be planned is wrong too."""
    fresh: dict[str, Json] = {}
    problems = []
    for case in cases:
        try:
            fresh[case.id] = parse_json(driver.plan_documents(case))
        except PlanningError as error:
            problems.append(_unplanned(case, error))
    return Findings(problems=(*problems, *plans.check(folder, fresh)))


def _unplanned(case: Case, error: PlanningError) -> str:
    return f"{case.id}: cannot be planned ({case.file}:{case.line})\n  {error}"


def prove_plans(cases: Sequence[Case], driver: PlanningDriver) -> Findings:
    """Compare stored plans of ours with what today's codec and planner make of them, and run what differs."""
    from kestrel_qtt.plan_commands.prove import compare, run_today

    found = [compare(stored, case, driver) for case in cases for stored in plans.find_plans(case.file.parent)]
    problems = [each.problem for each in found if each.problem]
    differing = sum(each.differs for each in found)
    excused = sum(bool(each.excuse) for each in found)
    told = f"{len(found)} plans survive a round trip; {differing} differ from those of today, {excused} of them for a stated reason"
    return Findings(() if problems else (told,), (*problems, *run_today(found, driver)))


def compact_plans(paths: Sequence[Path], *, dry_run: bool) -> Findings:
    """Remove below `paths` what is proved equal to a plan that stays; raise PlanStoreError."""
    from kestrel_qtt.plan_commands.text import plan_facts, plan_meaning

    verdicts = choose([stored for path in paths for stored in plans.find_plans(path)], plan_facts, plan_meaning)
    newest = plans.newest_plans(verdict.plan for verdict in verdicts).values()
    done = []
    for verdict in verdicts:
        if verdict.equal_to is not None:
            done.append(
                f"{'would remove' if dry_run else 'removed'} {verdict.plan.folder}: it equals {verdict.equal_to.version}"
            )
            if not dry_run:
                plans.remove(verdict.plan)
        elif verdict.plan not in newest:
            done.append(f"kept {verdict.plan.folder}: {verdict.reason}")
    return Findings((*done, f"{sum(v.equal_to is None for v in verdicts)} of {len(verdicts)} plans stay"))


def store_checkpoints(cases: Sequence[Case], after: int | None) -> Findings:
    """Store a checkpoint of each stored case beside its plan; a case without state, or whose state does not matter, is a problem."""
    from kestrel_qtt.plan_commands.resume import Checkpoints

    done: list[str] = []
    problems: list[str] = []
    engine = Checkpoints()
    try:
        for case in cases:
            try:
                path = plan_checkpoints.write(case.file.parent, engine.freeze(case, after))
            except plans.PlanStoreError as error:
                problems.append(str(error))
            else:
                done.append(f"stored {path}, {path.stat().st_size} bytes")
    finally:
        engine.close()
    return Findings(tuple(done), tuple(problems))


def resume_checkpoints(paths: Sequence[Path], functions: Sequence[Path] = ()) -> Findings:
    """Go on from every checkpoint below `paths`; what comes after and is not as its case expects is a problem."""
    from kestrel_qtt.plan_commands.resume import Checkpoints

    done: list[str] = []
    problems: list[str] = []
    engine = Checkpoints()
    try:
        for file in (file for path in paths for file in plan_checkpoints.find(path)):
            try:
                case = load_stored(case_file(file.with_name(SPEC_FILE)))
                case = replace(case, functions=(*case.functions, *functions))
                result = engine.resume(case, plan_checkpoints.read(file))
            except (plans.PlanStoreError, CaseFileError) as error:
                problems.append(str(error))
            else:
                (done if result.status is Status.PASSED else problems).append(
                    f"{result.status.value} {file}\n  {result.reason}".rstrip()
                )
    finally:
        engine.close()
    return Findings(tuple(done), tuple(problems))


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan.json as text: what it is called in errors, and the sources of functions that it may call."""

    name: str
    text: str
    functions: tuple[str | Path, ...]


def plan_texts(
    paths: Sequence[Path], selection: Selection, driver: PlanningDriver, functions: Sequence[Path] = ()
) -> Iterator[PlanText]:
    """The plans to explain: plan files are read, cases are planned; raise PlanStoreError."""
    files = [path for path in paths if path.name == PLAN_FILE or (path / PLAN_FILE).is_file()]
    for file in files:
        spec = (file if file.is_dir() else file.parent) / SPEC_FILE
        known = load(spec, functions).cases if spec.is_file() else ()
        yield PlanText(str(file), plans.read_plan(file), known[0].functions if known else tuple(functions))
    others = [path for path in paths if path not in files]
    cases = selection.of(load_all(find_files(others), functions).cases) if others else []
    for case in cases:
        try:
            yield PlanText(case.id, driver.plan_documents(case), case.functions)
        except PlanningError as error:
            raise plans.PlanStoreError(_unplanned(case, error)) from error
