"""Steps that filter, project, re-key or group a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.plan.step import Formats, SelectItem, Step
from kestrel_sql.sql.nodes.expressions import Expression, FunctionCall


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFilterV1(Step):
    """Keep the rows for which the predicate is true."""

    tag: ClassVar[str] = "streamFilterV1"
    source: Step
    filter_expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelectV1(Step):
    """Compute the value columns; `key_column_names` renames the key columns by position."""

    tag: ClassVar[str] = "streamSelectV1"
    source: Step
    key_column_names: tuple[str, ...] | None = None
    selected_keys: tuple[str, ...] | None = None
    select_expressions: tuple[SelectItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFlatMapV1(Step):
    """Replace each row by the rows that its table functions return, zipped by position."""

    tag: ClassVar[str] = "streamFlatMapV1"
    source: Step
    table_functions: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelectKeyV1(Step):
    """Re-key to one column called ROWKEY and drop rows with a null key (ksqlDB 5.5 and early 6.0)."""

    tag: ClassVar[str] = "streamSelectKeyV1"
    source: Step
    key_expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelectKeyV2(Step):
    """Re-key; rows with a null key column stay."""

    tag: ClassVar[str] = "streamSelectKeyV2"
    source: Step
    key_expression: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGroupByKeyV1(Step):
    """Group by the existing key."""

    tag: ClassVar[str] = "streamGroupByKeyV1"
    source: Step
    internal_formats: Formats


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGroupByV1(Step):
    """Group; several expressions make one STRING key, joined by `|+|` (ksqlDB up to 6.2)."""

    tag: ClassVar[str] = "streamGroupByV1"
    source: Step
    internal_formats: Formats
    group_by_expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGroupByV2(Step):
    """Group; each expression makes one key column."""

    tag: ClassVar[str] = "streamGroupByV2"
    source: Step
    internal_formats: Formats
    group_by_expressions: tuple[Expression, ...]
