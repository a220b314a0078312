"""Runs the stateful operators of a level on Spark's `transformWithState`, with state in Spark's store.

Rows are grouped by task and page; the state of all operators of a page is one blob. The rows of a page in a micro-batch
are processed in the order of their ordinals, so that results do not depend on how the input is cut into batches.

Spark hands the results of a page on only when the page is done, and then to another process. A page therefore also
takes the passes that follow, up to the next blobs: without that, an output of a join of a stream and a table was
written to a blob and read again for a sixth of its time (ADR 11).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, ValueState

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import batch_and_state, dump_state, stamped
from kestrel_sql.spark.io.arrow_passes import Pass, Passes
from kestrel_sql.spark.io.blobs import are_blobs, in_chunks, read_rows, write_rows
from kestrel_sql.spark.io.columns import widened
from kestrel_sql.spark.state.level import PLAN, Level, load_page
from kestrel_sql.spark.state.packing import PACKED, UNPACKED, pack_batches, unpack_batches
from kestrel_sql.spark.state.page import PageRunner
from kestrel_sql.spark.state.processor import PAGE_STATE, STATE_SCHEMA, LateProcessor
from kestrel_sql.spark.state.row_counts import LevelCounts


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
    """Passes the packed rows of a page to the operators of a level, and forwards rows that the level does not read.

    The results are rows of `UNPACKED`, or those that `then` makes of the rows after the level.
    """

    def __init__(self, level: Level, then: Pass | None = None, counts: LevelCounts | None = None) -> None:
        self._level = level
        self._then = then
        self._counts = counts

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variable."""
        self.open(handle.getValueState(PAGE_STATE, STATE_SCHEMA))

    def open(self, state: ValueState) -> None:
        """Prepare for any number of pages; `state` is the state variable, which Spark points at the current page."""
        self._state = state
        self._read = self._level.read()
        self._runner = PageRunner(self._level)
        self._fingerprint = self._level.fingerprint()

    def handleInputRows(self, key: tuple[int, int], rows: Iterator[Any], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Process the rows of a page in one micro-batch."""
        passing: list[bytes] = []
        own: list[pa.RecordBatch] = []
        for row in rows:
            if row["passing"]:
                passing.append(bytes(row["rows"]))
            else:
                own.append(read_rows(row["rows"], self._read))
        with _no_collector():
            made = self._handled(pa.concat_batches(own), key) if own else iter(())
            if self._then is None:
                yield from (Row(passing=True, rows=blob) for blob in passing)
                yield from (Row(passing=False, rows=write_rows(batch)) for batch in made)
                return
            schema, after = self._level.passing(), self._level.after()
            given = (widened(batch, after) for batch in chain((read_rows(blob, schema) for blob in passing), made))
            for batch in self._then(in_chunks(given)):
                yield from (Row(**row) for row in batch.to_pylist())

    def _handled(self, rows: pa.RecordBatch, key: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        found = self._state.get()
        stored = None if found is None else bytes(found[0])
        state: State = {} if stored is None else load_page(stored, self._fingerprint)
        state[PLAN] = self._fingerprint
        yield from self._runner.run(rows, key[0], state)
        dumped = dump_state(state)
        # A join that only looks rows up leaves the page as it was.
        if stored is None or dumped != batch_and_state(stored)[1]:
            batch = _batch()
            self._state.update((dumped if batch is None else stamped(batch, dumped),))
            if self._counts is not None:
                self._counts.note(key[0], key[1], state)

    def close(self) -> None:
        """Do nothing: no resources are open."""


def _batch() -> int | None:
    """The number of the micro-batch; a start looks for it in changelogs, whose only other number is their name."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return None if number is None else int(number)


class _Hosted(msgspec.Struct, frozen=True):
    """The rows after a level, to which its processor applies the passes that follow up to the next blobs."""

    packed: DataFrame
    level: Level
    counts: LevelCounts | None

    def mapInArrow(self, function: Pass, schema: str) -> DataFrame:  # noqa: N802 - Spark's name
        """Return what a function makes of the rows, as `DataFrame.mapInArrow` does."""
        # Spark takes what a processor returns cell by cell, so that it has to be few rows.
        if are_blobs(schema):
            return self._processed(Host(self.level, function, self.counts), schema)
        handled = Passes(self._processed(Host(self.level, counts=self.counts), UNPACKED))
        return handled.through(unpack_batches(self.level)).through(function).frame(schema)

    def _processed(self, host: Host, schema: str) -> DataFrame:
        return self.packed.groupBy("task", "page").transformWithState(
            statefulProcessor=LateProcessor(host), outputStructType=schema, outputMode="Update", timeMode="None"
        )


def apply_level(
    rows: Passes,
    level: Level,
    partitions: Sequence[int],
    *,
    has_task_pages: bool = False,
    placed: int = 0,
    counts: LevelCounts | None = None,
) -> Passes:
    """Apply a level of operators to rows; `counts` takes how many rows of state they keep.

    The other arguments are those of `pack_batches`.
    """
    packed = rows.through(pack_batches(level, partitions, has_task_pages=has_task_pages, placed=placed)).frame(PACKED)
    return Passes(_Hosted(packed, level, counts))
