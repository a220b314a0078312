"""Steps that filter, project, re-key or group a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from kestrel_sql.plan.schemas import grouped, grouped_as_text, rekeyed, scope_of, selected, typed
from kestrel_sql.plan.step import Formats, SelectItem, Shown, Step, Typer
from kestrel_sql.sql.nodes.expressions import Expression, FunctionCall
from kestrel_sql.types.schema import Column, Role, Schema


class StreamFilterV1(Step, frozen=True, kw_only=True):
    """Keep the rows for which the predicate is true."""

    tag: ClassVar[str] = "streamFilterV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    passive: ClassVar[bool] = True
    source: Step
    filter_expression: Annotated[Expression, Shown("WHERE")]


class StreamSelectV1(Step, frozen=True, kw_only=True):
    """Compute the value columns; `key_column_names` renames the key columns by position."""

    tag: ClassVar[str] = "streamSelectV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    passive: ClassVar[bool] = True
    source: Step
    key_column_names: tuple[str, ...] | None = None
    selected_keys: tuple[str, ...] | None = None
    select_expressions: Annotated[tuple[SelectItem, ...], Shown("SELECT")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key columns that are selected, and the items."""
        found = selected(self, self.key_column_names, self.select_expressions, inputs[0], typer)
        if self.selected_keys is None:
            return found
        return Schema((*(each for each in found.key if each.name in self.selected_keys), *found.value))


class StreamFlatMapV1(Step, frozen=True, kw_only=True):
    """Replace each row by the rows that its table functions return, zipped by position."""

    tag: ClassVar[str] = "streamFlatMapV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    source: Step
    table_functions: Annotated[tuple[FunctionCall, ...], Shown("SELECT")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The columns of the input, and the results."""
        (source,) = inputs
        types = [typed(call, scope_of(source), typer) for call in self.table_functions]
        return Schema((*source.columns, *(Column(f"KSQL_SYNTH_{at}", each) for at, each in enumerate(types))))


class StreamSelectKeyV1(Step, frozen=True, kw_only=True):
    """Re-key to one column called ROWKEY and drop rows with a null key (ksqlDB 5.5 and early 6.0)."""

    tag: ClassVar[str] = "streamSelectKeyV1"
    row_by_row: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("key_expression",)
    source: Step
    key_expression: Annotated[Expression, Shown("PARTITION BY")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """ROWKEY and the value."""
        (source,) = inputs
        return Schema((Column("ROWKEY", typed(self.key_expression, scope_of(source), typer), Role.KEY), *source.value))


class StreamSelectKeyV2(Step, frozen=True, kw_only=True):
    """Re-key; rows with a null key column stay."""

    tag: ClassVar[str] = "streamSelectKeyV2"
    row_by_row: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("key_expression",)
    source: Step
    key_expression: Annotated[tuple[Expression, ...], Shown("PARTITION BY")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The new key, and the value."""
        return rekeyed(self.key_expression, inputs[0], typer)


class StreamGroupByKeyV1(Step, frozen=True, kw_only=True):
    """Group by the existing key."""

    tag: ClassVar[str] = "streamGroupByKeyV1"
    kept: ClassVar[tuple[str, ...]] = ("internal_formats",)
    source: Step
    internal_formats: Formats


class StreamGroupByV1(Step, frozen=True, kw_only=True):
    """Group; several expressions make one STRING key, joined by `|+|` (ksqlDB up to 6.2)."""

    tag: ClassVar[str] = "streamGroupByV1"
    kept: ClassVar[tuple[str, ...]] = ("internal_formats", "group_by_expressions")
    source: Step
    internal_formats: Formats
    group_by_expressions: Annotated[tuple[Expression, ...], Shown("GROUP BY")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key of the groups, and the value."""
        return grouped_as_text(self.group_by_expressions, inputs[0], typer)


class StreamGroupByV2(Step, frozen=True, kw_only=True):
    """Group; each expression makes one key column."""

    tag: ClassVar[str] = "streamGroupByV2"
    kept: ClassVar[tuple[str, ...]] = ("internal_formats", "group_by_expressions")
    source: Step
    internal_formats: Formats
    group_by_expressions: Annotated[tuple[Expression, ...], Shown("GROUP BY")]

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key of the groups, and the value."""
        return grouped(self.group_by_expressions, inputs[0], typer)
