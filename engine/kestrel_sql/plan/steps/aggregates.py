"""Steps that aggregate streams and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.plan.step import Formats, Step
from kestrel_sql.sql.nodes.expressions import FunctionCall
from kestrel_sql.sql.nodes.statements import Emit, Window


@dataclass(frozen=True, slots=True)
class WindowExpression:
    """A window, and when its results are emitted: at every change or when it closes."""

    window: Window
    emit: Emit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregateV1(Step):
    """Aggregate a stream per key."""

    tag: ClassVar[str] = "streamAggregateV1"
    source: Step
    internal_formats: Formats
    non_aggregate_columns: tuple[str, ...]
    aggregation_functions: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWindowedAggregateV1(Step):
    """Aggregate a stream per key and window."""

    tag: ClassVar[str] = "streamWindowedAggregateV1"
    source: Step
    internal_formats: Formats
    non_aggregate_columns: tuple[str, ...]
    aggregation_functions: tuple[FunctionCall, ...]
    window_expression: WindowExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregateV1(Step):
    """Aggregate a table per group; a changed row is undone in its old group."""

    tag: ClassVar[str] = "tableAggregateV1"
    source: Step
    internal_formats: Formats
    non_aggregate_columns: tuple[str, ...]
    aggregation_functions: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSuppressV1(Step):
    """Hold windowed results back until their window closes (ksqlDB 6.1 to 7.1)."""

    tag: ClassVar[str] = "tableSuppressV1"
    source: Step
    refinement_info: str
    internal_formats: Formats
