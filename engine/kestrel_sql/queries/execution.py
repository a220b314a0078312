"""A persistent query over a memory stream. It runs while it has input; its table is read from its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from kestrel_sql.dataflow.rows import Output
from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.functions.registry import Registry
from kestrel_sql.queries.pull_state import MaterialisedTable
from kestrel_sql.spark.build.queryable import queryable_table
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader
from kestrel_sql.topics.records import Record


class ResumableExecution:
    """Runs a query in pieces, each from the checkpoint of the previous one."""

    def __init__(self, runner: ResumableRunner, run: QueryRun, functions: Registry) -> None:
        """Start without state and input.

        Raises:
            EngineError: the query cannot be built.
        """
        self._spark, self._functions, self._run = runner.spark, functions, run
        self._pipeline = build_pipeline([run], functions)
        self._query = runner.open(self._pipeline)
        self._reader: CheckpointReader | None = None

    def advance(self, records: Sequence[Record]) -> Output:
        """Process further records, and return the output for them."""
        return self._query.advance(records)

    def upgrade(self, run: QueryRun) -> None:
        """Continue with another plan and the same state.

        Raises:
            CheckpointError: the plan has other operators.
        """
        pipeline = build_pipeline([run], self._functions)
        self._query.upgrade(pipeline)
        self._run, self._pipeline = run, pipeline

    def table(self) -> MaterialisedTable | None:
        """Return the table that the query materialises; None if it materialises none."""
        queryable = queryable_table(self._pipeline.group, 0, self._run.plan.physical_plan)
        if queryable is None:
            return None
        if self._reader is None:
            levels = len(self._pipeline.group.levels)
            self._reader = CheckpointReader(self._spark, str(self._query.checkpoint), levels=levels, tasks=1, pages=1)
        return MaterialisedTable(queryable, self._reader)

    def close(self) -> None:
        """Close the reader of state."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
