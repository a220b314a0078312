"""What carries the queries of an engine: this process by default."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.process.execution import ProcessExecution
from kestrel_sql.queries.pull_state import MaterialisedTable
from kestrel_sql.topics.records import Record


class Execution(Protocol):
    """A query with its state."""

    @property
    def window(self) -> WindowInfo | None:
        """The window of the keys that it writes."""

    def advance(self, records: Sequence[Record]) -> Output:
        """Process further records, and return the output for them."""

    def upgrade(self, run: QueryRun) -> None:
        """Continue with another plan and the same state.

        Raises:
            CheckpointError: the plan has other operators.
        """

    def table(self) -> MaterialisedTable | None:
        """Return the table that the query materialises; None if it materialises none."""

    def close(self) -> None:
        """Close what the query holds."""


class Carrier(Protocol):
    """Starts queries."""

    def open(self, run: QueryRun, functions: Registry) -> Execution:
        """Return a query without state and input.

        Raises:
            EngineError: the query cannot be built.
        """

    def interruptible(self) -> AbstractContextManager[None]:
        """Return a block in which an interrupt stops the query that runs, and no other."""

    def close(self) -> None:
        """Remove what is left of queries."""


class ProcessCarrier:
    """Runs queries in this process."""

    def open(self, run: QueryRun, functions: Registry) -> ProcessExecution:
        """Return a query without state and input.

        Raises:
            EngineError: the query cannot be built.
        """
        return ProcessExecution(run, functions)

    def interruptible(self) -> AbstractContextManager[None]:
        """Return a block like any other: a query that an interrupt stops is forgotten."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: nothing is left."""
