"""The store of historic plans: find, load, compare, record and check them.

A stored plan never changes. Its spec changes by `amend` and `excuse` only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kestrel_qtt.cases.discovery import PLAN_FILE, SPEC_FILE
from kestrel_qtt.cases.model import Json
from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.plans.spec import write_json

RESTORED = ("ksql.cast.strings.preserve.nulls", "ksql.nested.error.set.null")
"""Stored configs that a replay restores, and that change results; false where missing (rules Q16.3)."""

CACHE_SIZES = ("ksql.streams.statestore.cache.max.bytes", "ksql.streams.cache.max.bytes.buffering")
"""Configs that a stored plan has where they are set, and that a replay restores (rules O9.4, Q16.3)."""

BY_HAND = "-by-hand"
"""Suffix of the version of a plan that no planner wrote: it has the style of an older release, or values that only
readers know.
"""

OLD_PLANS = "old-plans"
"""The folder of plans by hand that belong to no case file."""

_FOLDER = re.compile(r"(?P<version>\d+(?:\.\d+)+(?P<suffix>[A-Za-z0-9.+-]*))(?:_(?P<timestamp>\d+))?", re.ASCII)
_LONGEST_FOLDER = 120


class PlanStoreError(Exception):
    """A stored plan cannot be read, was changed, or must not be written."""


class StoredPlan(msgspec.Struct, frozen=True):
    """One stored plan. `timestamp` (epoch ms) is set for ksqlDB's plans only."""

    version: str
    timestamp: int | None
    folder: Path

    @property
    def home(self) -> Path:
        """The folder of its case, which all plans of the case share."""
        return self.folder.parent

    @property
    def plan_file(self) -> Path:
        """The path of the plan."""
        return self.folder / PLAN_FILE

    @property
    def spec_file(self) -> Path:
        """The path of the case as it was when the plan was written."""
        return self.folder / SPEC_FILE

    @property
    def is_by_hand(self) -> bool:
        """Whether no planner wrote the plan."""
        return self.version.endswith(BY_HAND)

    @property
    def age(self) -> tuple[tuple[int, ...], bool, str, int]:
        """The sort key of the plans of a case, newest last; `1.0.0.dev1` comes before `1.0.0`."""
        match = _parse_folder(self.version)
        suffix = match["suffix"]
        numbers = tuple(int(n) for n in match["version"].removesuffix(suffix).split("."))
        return numbers, not suffix, suffix, self.timestamp or 0


def case_folder(case_id: str) -> str:
    """Return the folder of the plans of a case, relative to the store: area, name of the file, name of the case."""
    path, _, slug = case_id.rpartition("::")
    return f"{file_folder(path)}/{_folder_name(slug, case_id)}"


def file_folder(path: str) -> str:
    """Return the folder of the plans of all cases of a file, relative to the store."""
    stem = path.removeprefix("test-cases/").rpartition(".")[0] or path
    return "/".join(_folder_name(part, part) for part in stem.split("/"))


def _folder_name(text: str, whole: str) -> str:
    """Reduce a name to letters and digits in lower case. If it is too long, cut it and append a hash of `whole`."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "case"
    if len(name) <= _LONGEST_FOLDER:
        return name
    return f"{name[: _LONGEST_FOLDER - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def find_plans(root: Path) -> list[StoredPlan]:
    """Find all plans below `root`, ordered by case and age. `root` is a store, or the folder of a case or plan.

    Raises:
        PlanStoreError: a plan has no spec, or its folder is not named `<version>` or `<version>_<timestamp>`.
    """
    plans: list[StoredPlan] = []
    for found in scan_plans(root):
        if isinstance(found, PlanStoreError):
            raise found
        plans.append(found)
    return sorted(plans, key=lambda plan: (plan.home, plan.age))


def scan_plans(root: Path) -> Iterator[StoredPlan | PlanStoreError]:
    """Yield all plans below `root` in the order of their paths, and an error in the place of each that has no spec."""
    for file in sorted(root.rglob(PLAN_FILE)):
        try:
            yield _stored(file.parent)
        except PlanStoreError as error:
            yield error


def plan_at(folder: Path) -> StoredPlan | None:
    """Return the plan that is stored in a folder, None if there is none; raise PlanStoreError as `find_plans`."""
    return _stored(folder) if (folder / PLAN_FILE).is_file() else None


def newest_plans(plans: Iterable[StoredPlan]) -> dict[Path, StoredPlan]:
    """Return the newest plan of each case, by the folder of the case."""
    return {plan.home: plan for plan in sorted(plans, key=lambda plan: plan.age)}


def load_stored(stored: StoredPlan) -> tuple[str, dict[str, Any]]:
    """Return the text of the plan and the parsed spec.

    Raises:
        PlanStoreError: a file cannot be read, or the plan or its spec is not the one that was recorded.
    """
    plan = _read(stored.plan_file)
    text = _read(stored.spec_file)
    spec = _parse(text, stored.spec_file)
    if not isinstance(spec, dict):
        raise PlanStoreError(f"{stored.spec_file}: a spec is an object")
    if "hash" in spec and spec["hash"] != _hash(plan):
        raise PlanStoreError(
            f"{stored.plan_file}: the plan was changed after it was recorded; stored plans are never edited"
        )
    if "specHash" in spec and not _is_recorded(text, spec):
        raise PlanStoreError(
            f"{stored.spec_file}: the spec was changed after it was recorded; `qtt plans amend` does that"
        )
    return plan, spec


def read_plan(path: Path) -> str:
    """Read a plan.json, given its path or that of its folder; raise PlanStoreError."""
    return _read(path / PLAN_FILE if path.is_dir() else path)


def written_by(file: Path) -> str | None:
    """Return the version in the folder name of a stored plan.json; None for other files."""
    match = _FOLDER.fullmatch(file.parent.name)
    return match["version"] if match else None


def needs_recording(fresh: Json, newest: Json) -> bool:
    """Say whether the parsed plan `fresh` differs from `newest`, which is None if the case has no plan.

    Statement texts, and configs that a replay does not restore, make no difference (rules Q16.1, Q16.3).
    """
    return newest is None or _compared(fresh) != _compared(newest)


def version_above(root: Path, case_id: str, version: str) -> str:
    """Return the version of the application for a changed plan of a case.

    If the application has not changed its version since the newest plan, a number is appended: 0.1.0, then 0.1.0.1.
    """
    home = root / case_folder(case_id)
    newest = newest_plans(find_plans(home)).get(home)
    if newest is None or StoredPlan(version, None, home).age > newest.age:
        return version
    released = StoredPlan(version, None, home).age[0]
    numbers = newest.age[0]
    last = numbers[-1] + 1 if len(numbers) > len(released) else 1
    return ".".join(map(str, (*numbers[: len(released)], last)))


def is_recorded(root: Path, case_id: str, plan: str) -> bool:
    """Say whether the newest stored plan of a case equals the text `plan`; raise PlanStoreError as `record`."""
    home = root / case_folder(case_id)
    newest = newest_plans(find_plans(home)).get(home)
    if newest is None:
        return False
    return not needs_recording(_parse(plan, home), _parse(load_stored(newest)[0], newest.plan_file))


def record(
    root: Path,
    case_id: str,
    version: str | None,
    plan: str,
    test_case: Mapping[str, Json],
    schemas: Mapping[str, Json] | None = None,
) -> StoredPlan | None:
    """Store the text `plan` of the case under `version` and return it; return None if the newest stored plan is equal.

    The folder appears as a whole or not at all. Stored plans do not change. Without a version, the plan gets the one
    after the newest: 1.0, then 1.1.

    Raises:
        PlanStoreError: the version has another plan of the case already, or the folder belongs to another case.
    """
    home = root / case_folder(case_id)
    newest = newest_plans(find_plans(home)).get(home)
    version = _next_version(newest) if version is None else version
    folder = home / version
    stored = StoredPlan(version, None, folder)
    _parse_folder(version)
    path = case_id.rpartition("::")[0]
    if newest is not None:
        text, spec = load_stored(newest)
        _check_owner(newest, spec, path, test_case)
        if not needs_recording(_parse(plan, folder / PLAN_FILE), _parse(text, newest.plan_file)):
            return None
        if stored.age <= newest.age:
            raise PlanStoreError(
                f"{newest.folder}: the plan of {case_id} has changed, so its version must be above {newest.version};"
                f" {version} is not: give a version of your application with --version"
            )
    spec = {
        "version": version,
        "path": path,
        "schemas": dict(schemas or {}),
        "testCase": dict(test_case),
        "hash": _hash(plan),
    }
    _write(folder, {PLAN_FILE: plan, SPEC_FILE: _spec_text(spec)})
    return stored


def _next_version(newest: StoredPlan | None) -> str:
    if newest is None:
        return "1.0"
    numbers = newest.age[0]
    return ".".join(str(number) for number in (*numbers[:-1], numbers[-1] + 1))


def adopt(root: Path, draft: Path) -> StoredPlan:
    """Store a plan written by hand in the folder `<case>/<version>-by-hand`. Its spec.json has no hash.

    The spec's field `byHand` says what the plan holds that today's planner does not write. `today` says why the
    statements of its case mean something else today, if they do.

    Raises:
        PlanStoreError: the draft is not a plan, or it is stored already.
    """
    stored = _stored(draft)
    plan, spec = load_stored(stored)
    if not stored.is_by_hand or not isinstance(spec.get("byHand"), str):
        raise PlanStoreError(
            f"{draft}: a plan by hand is in a folder <version>{BY_HAND}, and its spec says why in `byHand`"
        )
    path = spec.get("path")
    folder = root / (file_folder(path) if path else OLD_PLANS) / stored.home.name / draft.name
    if folder.exists():
        raise PlanStoreError(f"{folder}: the plan is stored already; stored plans are never edited")
    _write(folder, {PLAN_FILE: plan, SPEC_FILE: _spec_text({**spec, "hash": _hash(plan)})})
    return StoredPlan(stored.version, None, folder)


def amend(stored: StoredPlan, outputs: list[Json], note: Mapping[str, Json], log: list[Json] | None = None) -> None:
    """Replace the expected records of a stored plan, and its log entries by `log`, if it is given; its plan stays.

    The spec keeps what it had, with `note`, in its list `amended`, the oldest first.

    Raises:
        PlanStoreError: the plan was changed, or its spec cannot be read or written.
    """
    _, spec = load_stored(stored)
    case = spec["testCase"]
    fresh: dict[str, Json] = {"outputs": outputs, **({} if log is None else {"log": log})}
    _amend(stored, {**spec, "testCase": {**case, **fresh}}, {**note, **{name: case.get(name) for name in fresh}})


def excuse(stored: StoredPlan, reason: str, note: Mapping[str, Json]) -> None:
    """Say in the spec of a stored plan why its statements mean something else today; the rest is as for `amend`."""
    _, spec = load_stored(stored)
    _amend(stored, {**spec, "today": reason}, {**note, "today": spec.get("today")})


def _amend(stored: StoredPlan, spec: Mapping[str, Json], note: Mapping[str, Json]) -> None:
    before = spec.get("amended")
    document = _spec_text({**spec, "amended": [*(before if isinstance(before, list) else ()), {**note}]})
    draft = stored.spec_file.with_suffix(".draft")
    try:
        draft.write_bytes(document.encode("utf-8"))
        os.replace(draft, stored.spec_file)
    except OSError as error:
        raise PlanStoreError(f"{stored.spec_file}: cannot be written: {error}") from error


def remove(stored: StoredPlan) -> None:
    """Remove a stored plan that was proved equal to another."""
    shutil.rmtree(stored.folder)


def check(root: Path, fresh: Mapping[str, Json]) -> list[str]:
    """Return what is wrong with the store, one message each; `fresh` has today's plan by case id.

    Every case has a stored plan, the newest equals that of today, and no stored plan was changed.
    """
    problems: list[str] = []
    newest: dict[Path, tuple[StoredPlan, str]] = {}
    for found in scan_plans(root):
        try:
            if isinstance(found, PlanStoreError):
                raise found
            stored = found
            text, _ = load_stored(stored)
        except PlanStoreError as error:
            problems.append(str(error))
        else:
            if stored.home not in newest or newest[stored.home][0].age < stored.age:
                newest[stored.home] = (stored, text)
    return problems + list(_stale({home.relative_to(root).as_posix(): found for home, found in newest.items()}, fresh))


def fields_used(plan: Json) -> frozenset[str]:
    """Return the fields of a plan that are not null, such as `streamSinkV1.timestampColumn`, and its `@type`s."""
    used: set[str] = set()
    waiting: list[Json] = [plan]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
            tag = value.get("@type")
            if isinstance(tag, str):
                used |= {
                    tag,
                    *(f"{tag}.{name}" for name, content in value.items() if name != "@type" and content is not None),
                }
    return frozenset(used)


def _stale(newest: Mapping[str, tuple[StoredPlan, str]], fresh: Mapping[str, Json]) -> Iterator[str]:
    for case_id, plan in fresh.items():
        folder = case_folder(case_id)
        if folder not in newest:
            yield f"{case_id}: no plan is stored; `qtt plans record` stores it"
            continue
        stored, text = newest[folder]
        try:
            changed = needs_recording(plan, _parse(text, stored.plan_file))
        except PlanStoreError as error:
            yield str(error)
        else:
            if changed:
                yield (
                    f"{case_id}: the plan differs from the newest stored one, {stored.version}; "
                    "`qtt plans record` stores it"
                )


def _stored(folder: Path) -> StoredPlan:
    match = _parse_folder(folder.name, folder)
    if not (folder / SPEC_FILE).is_file():
        raise PlanStoreError(f"{folder}: there is no {SPEC_FILE} beside the plan")
    timestamp = match["timestamp"]
    return StoredPlan(match["version"], int(timestamp) if timestamp else None, folder)


def _parse_folder(name: str, folder: Path | None = None) -> re.Match[str]:
    match = _FOLDER.fullmatch(name)
    if match is None:
        raise PlanStoreError(f"{folder or name}: the name is not a version such as 1.0.0, nor 1.0.0_<timestamp>")
    return match


def _check_owner(stored: StoredPlan, spec: Mapping[str, Json], path: str, test_case: Mapping[str, Json]) -> None:
    case = spec.get("testCase")
    name = case.get("name") if isinstance(case, dict) else None
    if (spec.get("path"), name) != (path, test_case.get("name")):
        raise PlanStoreError(f"{stored.folder.parent}: the folder belongs to the case {name!r} of {spec.get('path')}")


def _compared(plan: Json) -> tuple[object, dict[str, bool]]:
    if not isinstance(plan, dict) or not isinstance(plan.get("plan"), list):
        return plan, {}
    configs = plan.get("configs")
    settings = configs if isinstance(configs, dict) else {}
    statements: Any = plan["plan"]
    return (
        [{k: v for k, v in s.items() if k != "statementText"} if isinstance(s, dict) else s for s in statements],
        {name: str(settings.get(name)).lower() == "true" for name in RESTORED},
    )


def _spec_text(spec: Mapping[str, Json]) -> str:
    """Return the text of a spec with its own hash, which covers all of its other members."""
    written: Any = parse_json(write_json(spec))
    return write_json({**written, "specHash": _spec_hash(written)})


def _is_recorded(text: str, spec: Mapping[str, Json]) -> bool:
    """Whether a spec has the hash of its other members; its text says so sooner, unless it was laid out anew."""
    without = text.replace(f',\n  "specHash": "{spec["specHash"]}"', "")
    return _hash(without) == spec["specHash"] or _spec_hash(spec) == spec["specHash"]


def _spec_hash(spec: Mapping[str, Json]) -> str:
    return _hash(write_json({name: value for name, value in spec.items() if name != "specHash"}))


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanStoreError(f"{file}: cannot be read: {error}") from error


def _parse(text: str, file: Path) -> Json:
    try:
        return parse_json(text)
    except TextError as error:
        raise PlanStoreError(f"{file}:{error.line}: {error.message}") from error


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        for name, text in files.items():
            (draft / name).write_bytes(text.encode("utf-8"))
        draft.chmod(0o755)
        os.rename(draft, folder)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise PlanStoreError(f"{folder}: cannot be written: {error}") from error
