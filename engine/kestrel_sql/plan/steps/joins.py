"""Steps that join streams and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kestrel_sql.plan.step import Formats, Step
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import JoinType


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStreamJoinV1(Step):
    """Join two streams within a time; lengths are in ms, `grace_ms` None selects the behaviour without grace period."""

    tag: ClassVar[str] = "streamStreamJoinV1"
    join_type: JoinType
    key_name: str = field(default="ROWKEY", metadata={"json": "keyColName"})
    left_internal_formats: Formats
    right_internal_formats: Formats
    left_source: Step
    right_source: Step
    before_ms: int = field(metadata={"json": "beforeMillis"})
    after_ms: int = field(metadata={"json": "afterMillis"})
    grace_ms: int | None = field(default=None, metadata={"json": "graceMillis"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTableJoinV1(Step):
    """Look each row of a stream up in a table."""

    tag: ClassVar[str] = "streamTableJoinV1"
    join_type: JoinType
    key_name: str = field(default="ROWKEY", metadata={"json": "keyColName"})
    internal_formats: Formats
    left_source: Step
    right_source: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTableJoinV1(Step):
    """Join two tables on their keys."""

    tag: ClassVar[str] = "tableTableJoinV1"
    join_type: JoinType
    key_name: str = field(default="ROWKEY", metadata={"json": "keyColName"})
    left_source: Step
    right_source: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class FkTableTableJoinV1(Step):
    """Join a table to another table's key; either the column or the expression is set."""

    tag: ClassVar[str] = "fkTableTableJoinV1"
    join_type: JoinType
    left_join_column_name: str | None = None
    left_join_expression: Expression | None = None
    formats: Formats
    left_source: Step
    right_source: Step
