"""The host of stateful operators on Spark's stateful API: runs the operators of a level, keeps their state in Spark's checkpointed store.

Rows are grouped by (task, page of keys); the states of all operators of a page are one blob. Within a micro-batch a page's rows are
handled in place order, so that the cut of the input into batches does not matter.
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
    """Keep Python's collector of cycles out: it would look at all rows of a page again and again, which takes as long as the operators."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Host(StatefulProcessor):
    """Hands the packed rows of a page to the level's operators, and rows that only pass on as they are."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the page's state."""
        self.open(handle.getValueState(PAGE_STATE, STATE_SCHEMA))

    def open(self, state: Any) -> None:
        """Prepare for any number of pages; `state` is that of whichever page is being handled."""
        self._state = state
        self._read = self._level.read()
        self._runner = PageRunner(self._level)
        self._fingerprint = self._level.fingerprint()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Handle what a page got in one micro-batch."""
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
        self._state.update((dump_state(state),))

    def close(self) -> None:
        """Nothing is held."""


def apply_level(rows: Passes, level: Level, partitions: Sequence[int], *, has_homes: bool = False) -> Passes:
    """Put a level of operators over `rows`; the rest is as for `pack_batches`."""
    packed = rows.through(pack_batches(level, partitions, has_homes=has_homes)).frame(PACKED)
    handled = packed.groupBy("task", "page").transformWithState(
        statefulProcessor=LateProcessor(Host(level)), outputStructType=UNPACKED, outputMode="Update", timeMode="None"
    )
    return Passes(handled).through(unpack_batches(level))
