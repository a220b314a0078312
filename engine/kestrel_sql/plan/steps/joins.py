"""Steps that join streams and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from kestrel_sql.plan.schemas import joined, misfit
from kestrel_sql.plan.step import Formats, Shown, Step, Typer
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.schema import Schema


class StreamStreamJoinV1(Step, frozen=True, kw_only=True):
    """Join two streams within a time; lengths are in ms, `grace_ms` None selects the behaviour without grace period."""

    tag: ClassVar[str] = "streamStreamJoinV1"
    join_type: Annotated[JoinType, Shown("JOIN")]
    key_name: str = msgspec.field(default="ROWKEY", name="keyColName")
    left_internal_formats: Formats
    right_internal_formats: Formats
    left_source: Step
    right_source: Step
    before_ms: Annotated[int, Shown("BEFORE")] = msgspec.field(name="beforeMillis")
    after_ms: Annotated[int, Shown("AFTER")] = msgspec.field(name="afterMillis")
    grace_ms: Annotated[int | None, Shown("GRACE")] = msgspec.field(default=None, name="graceMillis")

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key, and the values of both sides."""
        return joined(self, self.join_type, self.key_name, inputs)


class StreamTableJoinV1(Step, frozen=True, kw_only=True):
    """Look each row of a stream up in a table."""

    tag: ClassVar[str] = "streamTableJoinV1"
    join_type: Annotated[JoinType, Shown("JOIN")]
    key_name: str = msgspec.field(default="ROWKEY", name="keyColName")
    internal_formats: Formats
    left_source: Step
    right_source: Step

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key, and the values of both sides."""
        return joined(self, self.join_type, self.key_name, inputs)


class TableTableJoinV1(Step, frozen=True, kw_only=True):
    """Join two tables on their keys."""

    tag: ClassVar[str] = "tableTableJoinV1"
    join_type: Annotated[JoinType, Shown("JOIN")]
    key_name: str = msgspec.field(default="ROWKEY", name="keyColName")
    left_source: Step
    right_source: Step

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key, and the values of both sides."""
        return joined(self, self.join_type, self.key_name, inputs)


class FkTableTableJoinV1(Step, frozen=True, kw_only=True):
    """Join a table to another table's key; either the column or the expression is set."""

    tag: ClassVar[str] = "fkTableTableJoinV1"
    join_type: Annotated[JoinType, Shown("JOIN")]
    left_join_column_name: str | None = None
    left_join_expression: Annotated[Expression | None, Shown("ON")] = None
    formats: Formats
    left_source: Step
    right_source: Step

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key of the left table, and the values of both."""
        left, right = inputs
        if len(right.key) != 1:
            raise misfit(
                self, "rightSource", f"the right side of a foreign-key join needs one key column, not {len(right.key)}"
            )
        return Schema((*left.key, *left.value, *right.value))

    @property
    def has_old_rows(self) -> bool:
        """No such join stores its result (rule O4.4)."""
        return False
