"""A query over a memory stream that is run piece by piece from its checkpoint, also after its plan was upgraded."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.in_memory.runner import MemoryRunner, Output, _outputs, _row
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.topics.records import Record

_names = count()


class ResumableRunner(MemoryRunner):
    """Runs queries that go on later: each has a memory stream and a checkpoint, and runs only while it has input."""

    def open(self, pipeline: Pipeline) -> ResumableQuery:
        """Start a query with no state."""
        query = ResumableQuery(self, pipeline)
        check_start(lambda: self._spark, pipeline, query.checkpoint)
        return query

    def resume(self, pipeline: Pipeline, checkpoint: Path, fed: Sequence[Record]) -> ResumableQuery:
        """Go on from a checkpoint that some engine left behind after it had processed `fed` in one `advance`.

        Of these records only the number counts; the folder is copied.

        Raises:
            CheckpointError: another plan wrote it, or its states cannot be read.
        """
        query = ResumableQuery(self, pipeline)
        query.restore(checkpoint, fed)
        return query

    def folder(self, name: str) -> Path:
        """Where the checkpoint called `name` is."""
        return Path(self._root) / name

    def feed(self, stream: Any, rows: list[dict[str, Any]]) -> None:
        """Put rows into a memory stream, as one offset of it."""
        self._feed(stream, rows)

    def memory_stream(self) -> Any:
        """Make a memory stream of records."""
        return self._jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(
            self._encoder, self._spark._jsparkSession
        )

    def frame(self, pipeline: Pipeline, stream: Any) -> DataFrame:
        """Put a pipeline over a memory stream."""
        return pipeline.frame(self._spark, DataFrame(stream.toDF(), self._spark))

    def step(self, pipeline: Pipeline, stream: Any, name: str, rows: list[dict[str, Any]]) -> Output:
        """Run a pipeline over further rows, from the checkpoint called `name` on."""
        found: dict[int, list[dict[str, Any]]] = {}
        self._feed(stream, rows)
        writer = self._collecting(self.frame(pipeline, stream), found, str(self.folder(name)))
        self._finish(writer.trigger(availableNow=True).start())
        return _outputs([row for batch in found.values() for row in batch], pipeline, 1)[0]


class ResumableQuery:
    """One query between two runs."""

    def __init__(self, runner: ResumableRunner, pipeline: Pipeline) -> None:
        """Begin with no state and no input."""
        self._runner = runner
        self._pipeline = pipeline
        self._stream = runner.memory_stream()
        self._name = f"resumable_{next(_names)}"
        self._fed = 0

    def upgrade(self, pipeline: Pipeline) -> None:
        """Go on with another pipeline from the same state.

        Raises:
            CheckpointError: it has other operators.
        """
        check_start(lambda: self._runner.spark, pipeline, self.checkpoint, replaced=True)
        self._pipeline = pipeline

    def advance(self, records: Sequence[Record]) -> Output:
        """Process further records, and give what the query wrote of them."""
        rows = [_row(0, self._fed + at, record) for at, record in enumerate(records)]
        self._fed += len(rows)
        return self._runner.step(self._pipeline, self._stream, self._name, rows)

    def close(self) -> None:
        """Remove the checkpoint; the query cannot go on."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    @property
    def checkpoint(self) -> Path:
        """The folder of the query's checkpoint."""
        return self._runner.folder(self._name)

    def restore(self, checkpoint: Path, fed: Sequence[Record]) -> None:
        """Take the state and progress of a checkpoint."""
        shutil.copytree(checkpoint, self.checkpoint)
        _move_paths(self.checkpoint)
        check_start(lambda: self._runner.spark, self._pipeline, self.checkpoint)
        # The new stream has to stand where the checkpoint's stream stood: Spark asks only for what comes after.
        self._runner.feed(self._stream, [_row(0, at, record) for at, record in enumerate(fed)])
        self._fed = len(fed)


def _move_paths(checkpoint: Path) -> None:
    """Let the metadata of a checkpoint that was copied name its own files: Spark writes the full paths of schemas into it."""
    for file in checkpoint.glob("state/*/_metadata/v2/[!.]*"):
        text = file.read_text(encoding="utf-8")
        file.write_text(
            re.sub(r'"file:[^"]*?/state/(?=\d+/_stateSchema/)', f'"file:{checkpoint}/state/', text), encoding="utf-8"
        )
        # Its checksum is that of the text before.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
