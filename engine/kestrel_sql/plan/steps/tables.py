"""Steps that filter, project, re-key or group a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from kestrel_sql.plan.schemas import grouped, grouped_as_text, rekeyed, selected
from kestrel_sql.plan.step import Formats, SelectItem, Shown, Step, Typer
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.types.schema import Schema


class TableFilterV1(Step, frozen=True, kw_only=True):
    """Turn a row that fails the predicate into a tombstone if its previous version passed."""

    tag: ClassVar[str] = "tableFilterV1"
    row_by_row: ClassVar[bool] = True
    passive: ClassVar[bool] = True
    source: Step
    filter_expression: Annotated[Expression, Shown("WHERE")]

    @property
    def has_old_rows(self) -> bool:
        """Those of its input."""
        return self.source.has_old_rows

    @property
    def reads_old_rows(self) -> bool:
        """Only those that are there: a change that fails now is a tombstone if the row before it passed."""
        return self.source.has_old_rows


class TableSelectV1(Step, frozen=True, kw_only=True):
    """Compute the value columns of a table."""

    tag: ClassVar[str] = "tableSelectV1"
    row_by_row: ClassVar[bool] = True
    passive: ClassVar[bool] = True
    source: Step
    key_column_names: tuple[str, ...] | None = None
    select_expressions: Annotated[tuple[SelectItem, ...], Shown("SELECT")]
    internal_formats: Formats | None = None

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key columns, and the items."""
        return selected(self, self.key_column_names, self.select_expressions, inputs[0], typer)

    @property
    def has_old_rows(self) -> bool:
        """Those of its input, projected."""
        return self.source.has_old_rows

    @property
    def reads_old_rows(self) -> bool:
        """It projects what reads them."""
        return False


class TableSelectKeyV1(Step, frozen=True, kw_only=True):
    """Re-key a table, to change its key format."""

    tag: ClassVar[str] = "tableSelectKeyV1"
    kept: ClassVar[tuple[str, ...]] = ("internal_formats", "key_expression")
    source: Step
    internal_formats: Formats
    key_expression: Annotated[tuple[Expression, ...], Shown("PARTITION BY")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The new key, and the value."""
        return rekeyed(self.key_expression, inputs[0], typer)


class TableGroupByV1(Step, frozen=True, kw_only=True):
    """Group a table; several expressions make one STRING key, joined by `|+|` (ksqlDB up to 6.2)."""

    tag: ClassVar[str] = "tableGroupByV1"
    source: Step
    internal_formats: Formats
    group_by_expressions: Annotated[tuple[Expression, ...], Shown("GROUP BY")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key of the groups, and the value."""
        return grouped_as_text(self.group_by_expressions, inputs[0], typer)


class TableGroupByV2(Step, frozen=True, kw_only=True):
    """Group a table; each expression makes one key column."""

    tag: ClassVar[str] = "tableGroupByV2"
    source: Step
    internal_formats: Formats
    group_by_expressions: Annotated[tuple[Expression, ...], Shown("GROUP BY")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key of the groups, and the value."""
        return grouped(self.group_by_expressions, inputs[0], typer)
