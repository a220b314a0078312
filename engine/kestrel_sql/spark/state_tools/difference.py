"""Compares the states of two checkpoints row by row, whatever their numbers of partitions and pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from kestrel_sql.errors import CheckpointError
from kestrel_sql.operators.operator import Key, Value, Window
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.spark.state_tools.stored_query import StoredQuery, StoredStep

Rows = tuple[tuple[int | None, Value | None], ...]
"""The rows of one key in one part of a state: timestamp (ms) and value columns."""

_Identity = tuple[str, int | None, bytes, Window | None]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A key whose rows differ, or the stream time of a task; empty rows are those of a key that one state lacks.

    Attributes:
        step: the step.
        part: the part of its state, such as `groups`, or `stream time`.
        side: the input whose columns the rows have; None for the columns of the output.
        key: the key; for a stream time the number of the task.
        window: the window (ms) of the key.
        left: the rows of the first checkpoint.
        right: the rows of the second one.
    """

    step: StoredStep
    part: str
    side: int | None = None
    key: Key
    window: Window | None = None
    left: Rows
    right: Rows


def differences(left: StoredQuery, right: StoredQuery) -> Iterator[Difference]:
    """Yield the keys whose rows differ, and the tasks whose stream times do.

    Raises:
        CheckpointError: the queries have other operators, or a file is damaged.
    """
    if left.metadata.operators != right.metadata.operators:
        raise CheckpointError(
            f"the query {left.id} of {left.folder} and the query {right.id} of {right.folder} have different steps: "
            f"{_steps(left)}, and {_steps(right)}",
            hint="compare checkpoints of the same query",
        )
    for own, other in zip(left.steps, right.steps, strict=True):
        yield from _step_differences(left, own, right, other)


def _step_differences(
    left: StoredQuery, own: StoredStep, right: StoredQuery, other: StoredStep
) -> Iterator[Difference]:
    before, after = left.times(own), right.times(other)
    for task in sorted({*before, *after}):
        if before.get(task) != after.get(task):
            times = [((each[task], None),) if task in each else () for each in (before, after)]
            yield Difference(step=own, part="stream time", key=(task,), left=times[0], right=times[1])
    restored = own.keys()
    rows, found = _rows(left, own), _rows(right, other)
    for identity in {**rows, **found}:
        was, now = rows.get(identity, ()), found.get(identity, ())
        if was != now and _encoded(was) != _encoded(now):
            part, side, key, window = identity
            yield Difference(
                step=own, part=part, side=side, key=restored(side, key), window=window, left=was, right=now
            )


def _rows(query: StoredQuery, step: StoredStep) -> Mapping[_Identity, Rows]:
    found: dict[_Identity, list[tuple[int | None, Value | None]]] = defaultdict(list)
    for _, entry in query.rows(step):
        found[entry.part, entry.side, entry.key, entry.window].append((entry.timestamp, entry.value))
    return {identity: tuple(rows) for identity, rows in found.items()}


def _encoded(rows: Rows) -> bytes:
    """Rows as bytes: NaN does not equal itself."""
    return dump_state({"rows": rows})


def _steps(query: StoredQuery) -> str:
    return ", ".join(step.title for step in query.steps) or "none"
