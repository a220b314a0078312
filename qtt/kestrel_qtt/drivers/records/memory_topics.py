"""Topics in memory: queries read memory streams, and what they write stays in their case."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

import msgspec
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.fused import run_jobs
from kestrel_qtt.drivers.records.run import CaseJob, CaseTopics
from kestrel_qtt.drivers.warm.session import open_case_session
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.in_memory.runner import MemoryRunner, Row, input_row, outputs_of
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.topics.records import Record


class GroupRunner(MemoryRunner):
    """Runs pipelines of many queries on one Spark session; several threads may run a group each."""

    def run_group(
        self,
        pipeline: Pipeline,
        feeds: Sequence[Sequence[Record]],
        cut: Cut | None = None,
        *,
        queries: Sequence[int] | None = None,
        look: Callable[[Path], None] | None = None,
        tasks: Sequence[int] | None = None,
        pages: int = 1,
    ) -> list[Output]:
        """Feed each query its records in order, and return what was written for each feed.

        `queries` is the number of the query that reads each feed, one feed each if it is not given. A query that keeps
        no state may read several, if they are not cut.
        `look` is given the checkpoint at the end, before it is removed. `tasks` is the number of partitions of each
        query's topics, 1 if it is not given.

        Raises:
            Exception: Spark's own, when the pipeline as a whole does not run.
        """
        rows: list[Row] = []
        owners: dict[tuple[int, int], int] = {}
        """The number of the feed that each record of a query is from, by the numbers of query and record."""
        fed: Counter[int] = Counter()
        for number, (query, feed) in enumerate(zip(queries or range(len(feeds)), feeds, strict=True)):
            for at, record in enumerate(feed, start=fed[query]):
                rows.append(input_row(query, at, record))
                owners[query, at] = number
            fed[query] += len(feed)
        rows.sort(key=lambda row: int(row["feed"]))
        chosen, run = cut or Cut(), _GroupRun(self, pipeline, tasks, pages, self.name())
        batches = list(chosen.batches(rows, [int(row["feed"]) for row in rows]))
        try:
            if len(batches) > 1 or chosen.restart:
                written = run.step_by_step(batches, chosen.restart_after(len(batches)))
            else:
                written = run.at_once(rows)
            if look is not None:
                look(self.folder(run.name))
        finally:
            shutil.rmtree(self.folder(run.name), ignore_errors=True)
        return outputs_of([{**row, "q": owners[row["q"], row["ordinal"][0]]} for row in written], len(feeds))


class _GroupRun(msgspec.Struct, frozen=True):
    """A run of one pipeline, whose checkpoint is called `name`."""

    runner: GroupRunner
    pipeline: Pipeline
    tasks: Sequence[int] | None
    pages: int
    name: str

    def at_once(self, rows: Sequence[Row]) -> list[Row]:
        """Process rows in one micro-batch, and return what the pipeline wrote."""
        stream = self.runner.stream()
        self.runner.feed(stream, rows)
        frame = self.pipeline.frame(self.runner.read(stream), self.pages, tasks=self.tasks)
        return self.runner.written(frame, self.name)

    def step_by_step(self, batches: Sequence[Sequence[Row]], restart_after: int | None) -> list[Row]:
        """Process a micro-batch after the other, and stop and start after the one with the number `restart_after`."""
        stream = self.runner.stream()
        frame = self.pipeline.frame(self.runner.read(stream), self.pages, tasks=self.tasks)
        found: dict[int, list[Row]] = {}
        writer = self.runner.collecting(frame, found, self.name)
        query = self._start(writer)
        for at, batch in enumerate(batches):
            self.runner.feed(stream, batch)
            query.processAllAvailable()
            if at == restart_after:
                query.stop()
                query = self._start(writer)
        query.processAllAvailable()
        query.stop()
        return [row for batch in found.values() for row in batch]

    def _start(self, writer: DataStreamWriter) -> StreamingQuery:
        folder = self.runner.folder(self.name)
        check_start(lambda: self.runner.spark, self.pipeline, folder, pages=self.pages, tasks=self.tasks)
        return writer.start()


class MemoryTopics(CaseTopics):
    """Needs nothing but a runner over memory streams, which starts Spark with the first queries."""

    can_share = True

    def __init__(self) -> None:
        self._runner: GroupRunner | None = None
        self._opening = Lock()

    def run(self, jobs: Sequence[CaseJob], cut: Cut) -> None:
        """Run the queries, as few Spark queries as possible."""
        run_jobs(jobs, lambda pipeline, members: self._run(pipeline, members, cut))

    def _run(self, pipeline: Pipeline, jobs: Sequence[CaseJob], cut: Cut) -> list[Output]:
        """Feed each query its records, cut into micro-batches as asked."""
        with self._opening:
            runner = self._runner = self._runner or GroupRunner(open_case_session())
        tasks = {job.number: job.tasks() for job in jobs}
        return runner.run_group(
            pipeline,
            [job.feed for job in jobs],
            cut,
            queries=[job.number for job in jobs],
            tasks=[tasks[number] for number in sorted(tasks)],
        )

    def close(self) -> None:
        """Close the runner."""
        if self._runner is not None:
            self._runner.close()
