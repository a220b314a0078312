"""Runs the stateful operators of a level on Spark's `transformWithState`, with state in Spark's store.

Rows are grouped by task and page; the state of all operators of a page is one blob. The rows of a page in a micro-batch
are processed in the order of their ordinals, so that results do not depend on how the input is cut into batches.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.spark.io.arrow_passes import Passes
from kestrel_sql.spark.io.blobs import read_rows, write_rows
from kestrel_sql.spark.state.level import PLAN, Level, load_page
from kestrel_sql.spark.state.packing import PACKED, UNPACKED, pack_batches, unpack_batches
from kestrel_sql.spark.state.page import PageRunner
from kestrel_sql.spark.state.processor import PAGE_STATE, STATE_SCHEMA, LateProcessor


@contextmanager
def _no_collector() -> Iterator[None]:
    """Switch the garbage collector off.

    It would visit all rows of a page repeatedly, which takes as long as the operators.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Host(StatefulProcessor):
    """Passes the packed rows of a page to the operators of a level, and forwards rows that the level does not read."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variable."""
        self.open(handle.getValueState(PAGE_STATE, STATE_SCHEMA))

    def open(self, state: Any) -> None:
        """Prepare for any number of pages; `state` is the state variable, which Spark points at the current page."""
        self._state = state
        self._read = self._level.read()
        self._runner = PageRunner(self._level)
        self._fingerprint = self._level.fingerprint()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Process the rows of a page in one micro-batch."""
        own: list[pa.RecordBatch] = []
        for row in rows:
            if row["passing"]:
                yield Row(passing=True, rows=bytes(row["rows"]))
            else:
                own.append(read_rows(row["rows"], self._read))
        if own:
            with _no_collector():
                for made in self._handled(pa.concat_batches(own), key[0]):
                    yield Row(passing=False, rows=made)

    def _handled(self, rows: pa.RecordBatch, task: int) -> Iterator[bytes]:
        stored = self._state.get()
        state: State = {} if stored is None else load_page(bytes(stored[0]), self._fingerprint)
        state[PLAN] = self._fingerprint
        for made in self._runner.run(rows, task, state):
            yield write_rows(made)
        dumped = dump_state(state)
        # A join that only looks rows up leaves the page as it was.
        if stored is None or dumped != bytes(stored[0]):
            self._state.update((dumped,))

    def close(self) -> None:
        """Do nothing: no resources are open."""


def apply_level(rows: Passes, level: Level, partitions: Sequence[int], *, has_task_pages: bool = False) -> Passes:
    """Apply a level of operators to rows; the other arguments are those of `pack_batches`."""
    packed = rows.through(pack_batches(level, partitions, has_task_pages=has_task_pages)).frame(PACKED)
    handled = packed.groupBy("task", "page").transformWithState(
        statefulProcessor=LateProcessor(Host(level)), outputStructType=UNPACKED, outputMode="Update", timeMode="None"
    )
    return Passes(handled).through(unpack_batches(level))
