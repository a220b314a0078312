"""Checkpoint metadata: a file beside Spark's checkpoint with plans, operators, and numbers of pages and tasks.

Spark identifies state only by the number of the operator. With another plan, or another number of pages, a query would
silently find no state or the wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from kestrel_sql.errors import CheckpointError, PlanError
from kestrel_sql.plan.codec.json_text import read_json, write_json
from kestrel_sql.plan.codec.plan_file import PlanFile, decode_statement, encode_statement, engine_version
from kestrel_sql.plan.diff import diff_plans
from kestrel_sql.plan.document import QueryPlan, StatementPlan
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.releases import FIRST_RELEASE, is_older, minor_release
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, write_whole
from kestrel_sql.spark.state.packing import task_pages
from kestrel_sql.spark.state.widening import widenings

LAYOUT = 2
"""The version of what this release writes into a checkpoint.

This file, and pages in the format of `kestrel_sql.operators.state_codec`.
"""

_FILE = "kestrel.json"
_NAMES = {"has_task_pages": "has_homes"}
_FIELDS = {name: field for field, name in _NAMES.items()}
"""Names in the file that differ from those of the fields."""


def _is_list(found: object, fits: Callable[[object], bool]) -> bool:
    return isinstance(found, list) and all(map(fits, found))


def _is_count(found: object) -> bool:
    return type(found) is int and found > 0


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "release": lambda found: isinstance(found, str),
    "plans": lambda found: _is_list(found, lambda plan: isinstance(plan, dict)),
    "operators": lambda found: _is_list(found, lambda level: _is_list(level, lambda each: isinstance(each, str))),
    "pages": _is_count,
    "tasks": lambda found: _is_list(found, _is_count),
    "has_homes": lambda found: isinstance(found, bool),
    "pages_by_task": lambda found: isinstance(found, bool),
    "spark": lambda found: isinstance(found, str) and re.fullmatch(r"\d+\.\d+", found) is not None,
}
"""What the members of the file are."""

_SHOWN = 3
_SHOWN_CHARACTERS = 100
_ANEW = "or start with a new checkpoint"


class CheckpointMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The queries that a checkpoint belongs to.

    Attributes:
        release: the version of Kestrel that wrote the file.
        plans: the plans of the queries as JSON.
        operators: the fingerprint of each level (`Level.fingerprint`).
        pages: the number of pages of each task.
        tasks: the number of tasks of each query.
        has_task_pages: whether each task has a page for the state that spans its keys
            (`kestrel_sql.spark.state.packing.task_page`); `has_homes` in the file.
        pages_by_task: whether all pages of a task are its `kestrel_sql.spark.state.packing.task_pages`; only in the
            file if so.
        spark: the minor release of Spark that wrote the state; only in the file if it is not the first.
    """

    release: str
    plans: Sequence[Mapping[str, Any]]
    operators: Sequence[Sequence[str]]
    pages: int
    tasks: Sequence[int]
    has_task_pages: bool
    pages_by_task: bool = False
    spark: str = FIRST_RELEASE

    @staticmethod
    def of(
        pipeline: Pipeline,
        pages: int,
        tasks: Sequence[int],
        *,
        has_task_pages: bool = False,
        pages_by_task: bool = False,
    ) -> CheckpointMetadata:
        """Return the metadata of a checkpoint that a pipeline writes."""
        return CheckpointMetadata(
            release=engine_version(),
            plans=[_encoded(plan) for _, plan in sorted(pipeline.graph.plans.items())],
            operators=[pipeline.level(number).fingerprint() for number in range(1, pipeline.depth)],
            pages=pages,
            tasks=list(tasks),
            has_task_pages=has_task_pages,
            pages_by_task=pages_by_task,
            spark=minor_release(),
        )

    def page(self, task: int, number: int) -> int:
        """Return the page of a task with a number, which is the hash of a key modulo `pages`."""
        return task_pages(task, self.pages)[number] if self.pages_by_task else number

    def number(self, task: int, page: int) -> int | None:
        """Return the number of a page of a task; None if it has none."""
        if not self.pages_by_task:
            return page
        found = task_pages(task, self.pages)
        return found.index(page) if page in found else None


def read_metadata(folder: CheckpointPath) -> CheckpointMetadata | None:
    """Read the metadata of a checkpoint; None if it has none.

    Raises:
        CheckpointError: the file cannot be read, or has the layout of another release.
    """
    path = folder / _FILE
    try:
        document = read_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, PlanError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}", hint=f"restore the file, {_ANEW}") from error
    layout, release = (
        (document.get(name) for name in ("layout", "release")) if isinstance(document, dict) else (None, None)
    )
    if layout != LAYOUT:
        raise CheckpointError(
            f"the checkpoint {folder} has layout {layout}, written by Kestrel {release or 'of an unknown release'}; "
            f"Kestrel {engine_version()} reads layout {LAYOUT}",
            hint=f"use the release that wrote it, {_ANEW}",
        )
    wrong = next((name for name, fits in _TYPES.items() if name in document and not fits(document[name])), None)
    if wrong is not None:
        raise CheckpointError(
            f"{path} is damaged: {wrong} is {str(document[wrong])[:_SHOWN_CHARACTERS]!r}",
            hint=f"restore the file, {_ANEW}",
        )
    try:
        return CheckpointMetadata(**{_FIELDS.get(name, name): document[name] for name in document if name != "layout"})
    except TypeError as error:
        raise CheckpointError(f"{path} is damaged: {error}", hint=f"restore the file, {_ANEW}") from error


def write_metadata(folder: CheckpointPath, metadata: CheckpointMetadata) -> None:
    """Write the metadata of a checkpoint atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"layout": LAYOUT, **{_NAMES.get(name, name): value for name, value in asdict(metadata).items()}}
    if not metadata.pages_by_task:
        del document["pages_by_task"]
    if metadata.spark == FIRST_RELEASE:
        del document["spark"]
    write_whole(folder / _FILE, write_json(document))


def differences(written: CheckpointMetadata, own: CheckpointMetadata, *, replaced: bool) -> Iterator[str]:
    """The differences that keep a pipeline from resuming, as sentences; with `replaced` the plans may differ."""
    if is_older(own.spark, written.spark):
        yield f"Spark {written.spark} wrote its state, which an earlier release may misread; this is {own.spark}"
    if not replaced:
        yield from _plan_differences(written, own)
    if len(written.operators) != len(own.operators) or None in map(widenings, written.operators, own.operators):
        yield (
            f"it contains the state of {_levels(written.operators)}, and the query needs that of"
            f" {_levels(own.operators)}"
        )
    if written.pages != own.pages:
        yield f"its tasks have {written.pages} pages, and those of the query {own.pages}"
    if written.has_task_pages != own.has_task_pages:
        yield "it has the state that spans the keys of a task in another page than the query"
    if written.pages_by_task != own.pages_by_task:
        yield "it has the state of the keys of a task in other pages than the query"
    if list(written.tasks) != list(own.tasks):
        yield (
            f"it belongs to topics with {_numbers(written.tasks)} partitions, and the query reads {_numbers(own.tasks)}"
        )


def _plan_differences(written: CheckpointMetadata, own: CheckpointMetadata) -> Iterator[str]:
    try:
        before, after = (PlanFile(tuple(decode_statement(plan) for plan in each.plans)) for each in (written, own))
    except PlanError as error:
        yield f"its plan, written by Kestrel {written.release}, cannot be read: {error}"
        return
    changes = [str(change) for change in diff_plans(before, after)]
    if changes:
        more = [f"and {len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else []
        yield "another plan wrote it; changed:\n" + "\n".join([*changes[:_SHOWN], *more])


def _encoded(plan: QueryPlan) -> dict[str, object]:
    """A plan without its id, which does not matter to what the query does."""
    return encode_statement(StatementPlan(statement_text="", query_plan=replace(plan, query_id="")))


def _levels(operators: Sequence[Sequence[str]]) -> str:
    return "; ".join(f"level {at}: {', '.join(level)}" for at, level in enumerate(operators, 1)) or "no operator"


def _numbers(tasks: Sequence[int]) -> str:
    return ", ".join(map(str, tasks))
