"""Steps that filter, project, re-key or group a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kestrel_sql.plan.schemas import grouped, grouped_as_text, rekeyed, scope_of, selected, typed
from kestrel_sql.plan.step import Formats, SelectItem, Step, Typer
from kestrel_sql.sql.nodes.expressions import Expression, FunctionCall
from kestrel_sql.types.schema import Column, Role, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFilterV1(Step):
    """Keep the rows for which the predicate is true."""

    tag: ClassVar[str] = "streamFilterV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    passive: ClassVar[bool] = True
    source: Step
    filter_expression: Expression = field(metadata={"word": "WHERE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelectV1(Step):
    """Compute the value columns; `key_column_names` renames the key columns by position."""

    tag: ClassVar[str] = "streamSelectV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    passive: ClassVar[bool] = True
    source: Step
    key_column_names: tuple[str, ...] | None = None
    selected_keys: tuple[str, ...] | None = None
    select_expressions: tuple[SelectItem, ...] = field(metadata={"word": "SELECT"})

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key columns that are selected, and the items."""
        found = selected(self, self.key_column_names, self.select_expressions, inputs[0], typer)
        if self.selected_keys is None:
            return found
        return Schema((*(each for each in found.key if each.name in self.selected_keys), *found.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFlatMapV1(Step):
    """Replace each row by the rows that its table functions return, zipped by position."""

    tag: ClassVar[str] = "streamFlatMapV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    source: Step
    table_functions: tuple[FunctionCall, ...] = field(metadata={"word": "SELECT"})

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The columns of the input, and the results."""
        (source,) = inputs
        types = [typed(call, scope_of(source), typer) for call in self.table_functions]
        return Schema((*source.columns, *(Column(f"KSQL_SYNTH_{at}", each) for at, each in enumerate(types))))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelectKeyV1(Step):
    """Re-key to one column called ROWKEY and drop rows with a null key (ksqlDB 5.5 and early 6.0)."""

    tag: ClassVar[str] = "streamSelectKeyV1"
    row_by_row: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("key_expression",)
    source: Step
    key_expression: Expression = field(metadata={"word": "PARTITION BY"})

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """ROWKEY and the value."""
        (source,) = inputs
        return Schema((Column("ROWKEY", typed(self.key_expression, scope_of(source), typer), Role.KEY), *source.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelectKeyV2(Step):
    """Re-key; rows with a null key column stay."""

    tag: ClassVar[str] = "streamSelectKeyV2"
    row_by_row: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("key_expression",)
    source: Step
    key_expression: tuple[Expression, ...] = field(metadata={"word": "PARTITION BY"})

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The new key, and the value."""
        return rekeyed(self.key_expression, inputs[0], typer)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGroupByKeyV1(Step):
    """Group by the existing key."""

    tag: ClassVar[str] = "streamGroupByKeyV1"
    kept: ClassVar[tuple[str, ...]] = ("internal_formats",)
    source: Step
    internal_formats: Formats


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGroupByV1(Step):
    """Group; several expressions make one STRING key, joined by `|+|` (ksqlDB up to 6.2)."""

    tag: ClassVar[str] = "streamGroupByV1"
    kept: ClassVar[tuple[str, ...]] = ("internal_formats", "group_by_expressions")
    source: Step
    internal_formats: Formats
    group_by_expressions: tuple[Expression, ...] = field(metadata={"word": "GROUP BY"})

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key of the groups, and the value."""
        return grouped_as_text(self.group_by_expressions, inputs[0], typer)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGroupByV2(Step):
    """Group; each expression makes one key column."""

    tag: ClassVar[str] = "streamGroupByV2"
    kept: ClassVar[tuple[str, ...]] = ("internal_formats", "group_by_expressions")
    source: Step
    internal_formats: Formats
    group_by_expressions: tuple[Expression, ...] = field(metadata={"word": "GROUP BY"})

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The key of the groups, and the value."""
        return grouped(self.group_by_expressions, inputs[0], typer)
