"""Steps that aggregate streams and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from kestrel_sql.plan.schemas import aggregated
from kestrel_sql.plan.step import Formats, Shown, Step, Typer
from kestrel_sql.sql.nodes.expressions import FunctionCall
from kestrel_sql.sql.nodes.statements import Emit, Window
from kestrel_sql.types.schema import WINDOW_BOUNDS, Schema


class WindowExpression(msgspec.Struct, frozen=True):
    """A window, and when its results are emitted: at every change or when it closes."""

    window: Window
    emit: Emit | None = None


class StreamAggregateV1(Step, frozen=True, kw_only=True):
    """Aggregate a stream per key."""

    tag: ClassVar[str] = "streamAggregateV1"
    kept: ClassVar[tuple[str, ...]] = ("non_aggregate_columns", "aggregation_functions", "internal_formats")
    source: Step
    internal_formats: Formats
    non_aggregate_columns: tuple[str, ...]
    aggregation_functions: Annotated[tuple[FunctionCall, ...], Shown("AGGREGATE")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key, the plain columns and the results."""
        return aggregated(self, self.non_aggregate_columns, self.aggregation_functions, inputs[0], typer)


class StreamWindowedAggregateV1(Step, frozen=True, kw_only=True):
    """Aggregate a stream per key and window."""

    tag: ClassVar[str] = "streamWindowedAggregateV1"
    source: Step
    internal_formats: Formats
    non_aggregate_columns: tuple[str, ...]
    aggregation_functions: Annotated[tuple[FunctionCall, ...], Shown("AGGREGATE")]
    window_expression: Annotated[WindowExpression, Shown("WINDOW")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key, the plain columns, the results and the bounds of the window."""
        found = aggregated(self, self.non_aggregate_columns, self.aggregation_functions, inputs[0], typer)
        return Schema((*found.columns, *WINDOW_BOUNDS))


class TableAggregateV1(Step, frozen=True, kw_only=True):
    """Aggregate a table per group; a changed row is undone in its old group."""

    tag: ClassVar[str] = "tableAggregateV1"
    source: Step
    internal_formats: Formats
    non_aggregate_columns: tuple[str, ...]
    aggregation_functions: Annotated[tuple[FunctionCall, ...], Shown("AGGREGATE")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key, the plain columns and the results."""
        return aggregated(self, self.non_aggregate_columns, self.aggregation_functions, inputs[0], typer)


class TableSuppressV1(Step, frozen=True, kw_only=True):
    """Hold windowed results back until their window closes (ksqlDB 6.1 to 7.1)."""

    tag: ClassVar[str] = "tableSuppressV1"
    source: Step
    refinement_info: Annotated[str, Shown("EMIT")]
    internal_formats: Formats

    @property
    def reads_old_rows(self) -> bool:
        """It emits one result for each window."""
        return False
