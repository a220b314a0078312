"""Steps that filter, project, re-key or group a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.plan.step import Formats, SelectItem, Step
from kestrel_sql.sql.nodes.expressions import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilterV1(Step):
    """Turn a row that fails the predicate into a tombstone if its previous version passed."""

    tag: ClassVar[str] = "tableFilterV1"
    source: Step
    filter_expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSelectV1(Step):
    """Compute the value columns of a table."""

    tag: ClassVar[str] = "tableSelectV1"
    source: Step
    key_column_names: tuple[str, ...] | None = None
    select_expressions: tuple[SelectItem, ...]
    internal_formats: Formats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSelectKeyV1(Step):
    """Re-key a table, to change its key format."""

    tag: ClassVar[str] = "tableSelectKeyV1"
    source: Step
    internal_formats: Formats
    key_expression: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGroupByV1(Step):
    """Group a table; several expressions make one STRING key, joined by `|+|` (ksqlDB up to 6.2)."""

    tag: ClassVar[str] = "tableGroupByV1"
    source: Step
    internal_formats: Formats
    group_by_expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGroupByV2(Step):
    """Group a table; each expression makes one key column."""

    tag: ClassVar[str] = "tableGroupByV2"
    source: Step
    internal_formats: Formats
    group_by_expressions: tuple[Expression, ...]
