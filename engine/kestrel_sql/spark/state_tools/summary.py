"""Sums up the stateful steps of a query: pages, keys, rows, bytes, and the stream time of each task."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.operators.state_counts import stream_time
from kestrel_sql.spark.state_tools.stored_query import StoredQuery, StoredStep


class StepSummary(msgspec.Struct):
    """What the state of a step holds.

    Attributes:
        step: the step.
        partitions: the number of partitions of Spark's store.
        pages: the number of pages that have state.
        keys: the number of different keys.
        rows: the number of rows of all parts of the state.
        bytes: the size of the state as it is stored, without Spark's compression.
        times: the stream time (ms) of each task that has one.
    """

    step: StoredStep
    partitions: int
    pages: int = 0
    keys: int = 0
    rows: int = 0
    bytes: int = 0
    times: dict[int, int] = {}

    def add(self, task: int, state: State, blob_bytes: int | None) -> None:
        """Add a page; `blob_bytes` is its size if the step is alone in it."""
        own = state.get(self.step.relation)
        if own is None:
            return
        keys = [entry.key for entry in self.step.entries(state)]
        self.pages += 1
        self.keys += len(set(keys))
        self.rows += len(keys)
        self.bytes += len(dump_state(own)) if blob_bytes is None else blob_bytes
        time = stream_time(own)
        if time is not None:
            self.times[task] = time


def summarise(query: StoredQuery) -> list[StepSummary]:
    """Return a summary of each stateful step of a query.

    Raises:
        CheckpointError: a file or a page is missing or damaged; names it.
    """
    found = []
    for level in range(1, query.levels + 1):
        steps = [step for step in query.steps if step.level == level]
        summaries = [StepSummary(step, len(query.partitions(level))) for step in steps]
        for page, state in query.states(level):
            for summary in summaries:
                summary.add(page.task, state, len(page.blob) if len(summaries) == 1 else None)
        found += summaries
    return found


def as_document(query: StoredQuery, summary: StepSummary) -> Mapping[str, object]:
    """Return a summary as a JSON object."""
    return {
        "query": query.id,
        "name": query.name,
        "step": summary.step.name,
        "operator": type(summary.step.operator).__name__,
        "level": summary.step.level,
        "tasks": max(query.metadata.tasks, default=1),
        "pagesPerTask": query.metadata.pages,
        "partitions": summary.partitions,
        "pages": summary.pages,
        "keys": summary.keys,
        "rows": summary.rows,
        "bytes": summary.bytes,
        "lastBatch": query.batches - 1 if query.batches else None,
        "streamTimes": {str(task): time for task, time in sorted(summary.times.items())},
    }
