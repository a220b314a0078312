"""A query over a memory stream that resumes from its checkpoint for each further input, also with an upgraded plan."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from kestrel_sql.dataflow.rows import Output
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.in_memory.runner import MemoryRunner, Row, finish, input_row, outputs_of
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.runtime.jvm import Java
from kestrel_sql.topics.records import Record


class ResumableRunner(MemoryRunner):
    """Runs queries that resume: each has a memory stream and a checkpoint, and runs only while it has input."""

    def open(self, pipeline: Pipeline) -> ResumableQuery:
        """Return a query without state."""
        query = ResumableQuery(self, pipeline)
        check_start(lambda: self.spark, pipeline, query.checkpoint)
        return query

    def step(self, pipeline: Pipeline, stream: Java, name: str, rows: list[Row]) -> Output:
        """Run a pipeline over further rows, from the checkpoint `name`."""
        found: dict[int, list[Row]] = {}
        self.feed(stream, rows)
        writer = self.collecting(pipeline.frame(self.read(stream)), found, name)
        try:
            finish(writer.trigger(availableNow=True).start())
        finally:
            self.release(name)
        return outputs_of([row for batch in found.values() for row in batch], 1)[0]


class ResumableQuery:
    """A query that resumes with each further input."""

    def __init__(self, runner: ResumableRunner, pipeline: Pipeline) -> None:
        """Start without state and input."""
        self._runner = runner
        self._pipeline = pipeline
        self._stream = runner.stream()
        self._name = runner.name()
        self._fed = 0

    def upgrade(self, pipeline: Pipeline) -> None:
        """Continue with another pipeline and the same state.

        Raises:
            CheckpointError: the pipeline has other operators.
        """
        check_start(lambda: self._runner.spark, pipeline, self.checkpoint, replaced=True)
        self._pipeline = pipeline

    def advance(self, records: Sequence[Record]) -> Output:
        """Process further records, and return the output for them."""
        rows = [input_row(0, self._fed + at, record) for at, record in enumerate(records)]
        self._fed += len(rows)
        return self._runner.step(self._pipeline, self._stream, self._name, rows)

    def close(self) -> None:
        """Remove the checkpoint; the query cannot resume afterwards."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    @property
    def checkpoint(self) -> Path:
        """The folder of the query's checkpoint."""
        return self._runner.folder(self._name)

    def skip(self, records: Sequence[Record]) -> None:
        """Set the stream to the offset after records that the checkpoint has processed in one `advance`.

        Only their number matters.
        """
        self._runner.feed(self._stream, [input_row(0, at, record) for at, record in enumerate(records)])
        self._fed = len(records)
