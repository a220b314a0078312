"""Queries over memory streams of a Spark session; their tables are read from their checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.queryable import QueryableTable, queryable_table
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.functions.registry import Registry
from kestrel_sql.operators.operator import Operator
from kestrel_sql.operators.table_rows import SerialisedKeys, StoredRow, table_rows
from kestrel_sql.plan.step import Step, WindowInfo
from kestrel_sql.queries.interrupts import delayed_interrupts
from kestrel_sql.queries.pull_lookup import Keys
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader
from kestrel_sql.topics.records import Record


class SparkCarrier:
    """Runs queries on a Spark session, which starts with the first."""

    def __init__(self, open_spark: Callable[[], SparkSession]) -> None:
        self._open_spark = open_spark
        self._runner: ResumableRunner | None = None

    def open(self, run: QueryRun, functions: Registry) -> SparkExecution:
        """Return a query without state and input.

        Raises:
            EngineError: the query cannot be built.
        """
        return SparkExecution(self._opened(), run, functions)

    def interruptible(self) -> AbstractContextManager[None]:
        """Return a block at whose end an interrupt takes effect; until then it stops what runs."""
        return delayed_interrupts(self._stop)

    def _stop(self) -> None:
        for query in self._runner.spark.streams.active if self._runner is not None else ():
            query.stop()

    def close(self) -> None:
        """Remove the checkpoints."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _opened(self) -> ResumableRunner:
        if self._runner is None:
            self._runner = ResumableRunner(self._open_spark())
        return self._runner


class CheckpointTable:
    """The table that a query materialises, as of its last batch."""

    def __init__(self, queryable: QueryableTable, reader: CheckpointReader) -> None:
        self._reader, self._level = reader, queryable.stateful.output.level
        self._relation = str(queryable.stateful.output.number)
        self.operator: Operator = queryable.stateful.operator
        self.facts: Relation = queryable.stateful.output
        self.steps: Sequence[Step] = queryable.steps

    def entries(self, keys: Keys | None) -> list[StoredRow]:
        """Return the rows of the keys, or all rows, without an order."""
        wanted: SerialisedKeys = None if keys is None else {self.operator.key_bytes(key) for key in keys}
        windowed = self.facts.window is not None
        own = (state[self._relation] for state in self._reader.states(self._level) if state.get(self._relation))
        return [row for state in own for row in table_rows(self.operator, state, wanted, windowed)]


class SparkExecution:
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

    @property
    def window(self) -> WindowInfo | None:
        """The window of the keys that it writes."""
        return self._pipeline.graph.ends[0].window

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

    def table(self) -> CheckpointTable | None:
        """Return the table that the query materialises; None if it materialises none."""
        queryable = queryable_table(self._pipeline.graph, 0, self._run.plan.physical_plan)
        if queryable is None:
            return None
        if self._reader is None:
            levels = len(self._pipeline.graph.levels)
            self._reader = CheckpointReader(self._spark, str(self._query.checkpoint), levels)
        return CheckpointTable(queryable, self._reader)

    def close(self) -> None:
        """Remove the checkpoint."""
        self._query.close()
