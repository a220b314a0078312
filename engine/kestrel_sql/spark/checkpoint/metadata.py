"""What a checkpoint says of itself: a file of ours beside Spark's, with the plans, operators and numbers that its states belong to.

Spark knows a state by the number of its operator only: under another plan, or another number of pages, it would find no state or
a wrong one, and say nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kestrel_sql.errors import CheckpointError, PlanError
from kestrel_sql.plan.codec.json_text import read_json, write_json
from kestrel_sql.plan.codec.plan_file import PlanFile, decode_statement, encode_statement, engine_version
from kestrel_sql.plan.diff import diff_plans
from kestrel_sql.plan.document import QueryPlan, StatementPlan
from kestrel_sql.spark.pipeline.pipeline import Pipeline

LAYOUT = 2
"""The number of what this release writes into a checkpoint: this file, and the pages as `kestrel_sql.operators.state_codec` has them.

Layout 1 is without compressed windows, which `kestrel_sql.operators.state_codec` reads as well.
"""

_READ = (1, LAYOUT)

_FILE = "kestrel.json"
_SHOWN = 3
_ANEW = "or begin anew with a new checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a checkpoint belongs to.

    `plans` are the plans of its queries as JSON, `operators` the fingerprints of its levels (`Level.fingerprint`), `pages` how many parts
    the keys of a task have, `tasks` how many tasks each query has, `has_homes` whether tasks have home pages (`spark.state.packing`), which
    the first releases did not know, `release` who wrote the file.
    """

    release: str
    plans: Sequence[Mapping[str, Any]]
    operators: Sequence[Sequence[str]]
    pages: int
    tasks: Sequence[int]
    has_homes: bool = False

    @staticmethod
    def of(pipeline: Pipeline, pages: int, tasks: Sequence[int], *, has_homes: bool = False) -> Note:
        """The note that a pipeline leaves."""
        return Note(
            release=engine_version(),
            plans=[_encoded(plan) for _, plan in sorted(pipeline.group.plans.items())],
            operators=[pipeline.level(number).fingerprint() for number in range(1, pipeline.depth)],
            pages=pages,
            tasks=list(tasks),
            has_homes=has_homes,
        )


def read_note(folder: Path) -> Note | None:
    """Read the note of a checkpoint; None where there is none, as releases before it left them.

    Raises:
        CheckpointError: the file cannot be read, or another release has another layout.
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
    if layout not in _READ:
        raise CheckpointError(
            f"the checkpoint {folder} was written by Kestrel {release or 'of an unknown release'} in layout {layout}, "
            f"and Kestrel {engine_version()} reads layouts {' and '.join(map(str, _READ))}",
            hint=f"go on with the release that wrote it, {_ANEW}",
        )
    try:
        return Note(**{name: value for name, value in document.items() if name != "layout"})
    except TypeError as error:
        raise CheckpointError(f"{path} is damaged: {error}", hint=f"restore the file, {_ANEW}") from error


def write_note(folder: Path, note: Note) -> None:
    """Write the note of a checkpoint, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{_FILE}.new"
    with fresh.open("w", encoding="utf-8") as file:
        file.write(write_json({"layout": LAYOUT, **asdict(note)}))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / _FILE)


def differences(written: Note, own: Note, *, replaced: bool) -> Iterator[str]:
    """What keeps a pipeline from going on with a checkpoint, as sentences; plans may differ where one has `replaced` the other."""
    if not replaced:
        yield from _plan_differences(written, own)
    if list(map(list, written.operators)) != list(map(list, own.operators)):
        yield f"it holds the state of {_levels(written.operators)}, and the query needs that of {_levels(own.operators)}"
    if written.pages != own.pages:
        yield f"it keeps the keys of a task in {written.pages} pages, and the query in {own.pages}"
    if written.has_homes != own.has_homes:
        yield "it keeps what crosses keys in other pages than the query"
    if list(written.tasks) != list(own.tasks):
        yield f"it belongs to topics of {_numbers(written.tasks)} partitions, and the query reads {_numbers(own.tasks)}"


def _plan_differences(written: Note, own: Note) -> Iterator[str]:
    try:
        before, after = (PlanFile(tuple(decode_statement(plan) for plan in note.plans)) for note in (written, own))
    except PlanError as error:
        yield f"its plan, written by Kestrel {written.release}, cannot be read: {error}"
        return
    changes = [str(change) for change in diff_plans(before, after)]
    if changes:
        more = [f"and {len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else []
        yield "it was written by another plan; changed:\n" + "\n".join([*changes[:_SHOWN], *more])


def _encoded(plan: QueryPlan) -> dict[str, Any]:
    """A plan without its id, which says nothing of what the query does."""
    return encode_statement(StatementPlan(statement_text="", query_plan=replace(plan, query_id="")))


def _levels(operators: Sequence[Sequence[str]]) -> str:
    return "; ".join(f"level {at}: {', '.join(level)}" for at, level in enumerate(operators, 1)) or "no operator"


def _numbers(tasks: Sequence[int]) -> str:
    return ", ".join(map(str, tasks))
