"""What builders exchange: a relation of a query, where it stands, and what its rows look like."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kestrel_sql.plan.step import FormatInfo, SerdeFeature, WindowInfo
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.stage import ENVELOPE, struct_column
from kestrel_sql.spark.types import name, struct_of
from kestrel_sql.types.schema import Column, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCodec:
    """The format in which operators serialise the key: its identity and its order."""

    format: FormatInfo
    features: frozenset[SerdeFeature] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A relation between two steps.

    Its struct column has the fields `k` (the key columns; absent for key-less streams), `v` (the value columns), and where they are
    tracked `o` (the previous value), `ok` (the previous key of a grouped table) and `x` (columns an operator asked for).
    `level` counts the stateful levels passed.
    """

    relation: int
    level: int
    schema: Schema
    is_table: bool = False
    has_old: bool = False
    has_old_key: bool = False
    extra: tuple[Column, ...] = ()
    window: WindowInfo | None = None
    key_codec: KeyCodec
    topic: str = ""
    rekeyed: bool = False
    """Whether the key is another one than that of the row's task: the next operator finds the task anew."""
    suppress_ms: int = 0
    """How long after its end (ms) a window's last result is held back by a suppress step."""

    def part(self, *path: str) -> Tree:
        """A field of the relation's struct, such as `part("v", "F")`."""
        return s.column(struct_column(self.relation), *path)

    def values(self, part: str = "v") -> Mapping[str, Tree]:
        """The trees of the value columns, as expressions see them."""
        return {column.name: self.part(part, column.name) for column in self.schema.value}

    def keys(self) -> Mapping[str, Tree]:
        """The trees of the key columns."""
        return {column.name: self.part("k", column.name) for column in self.schema.key}

    def fields(self) -> tuple[tuple[str, str], ...]:
        """The fields of the struct with their Spark types."""
        key, value = struct_of(self.schema.key), struct_of(self.schema.value)
        present = [("k", key)] if self.schema.key else []
        present.append(("v", value))
        if self.has_old:
            present.append(("o", value))
        if self.has_old_key:
            present.append(("ok", key))
        if self.extra:
            present.append(("x", struct_of(self.extra)))
        return tuple(present)

    def struct_type(self, wanted: Collection[str] | None = None) -> str:
        """The Spark type of the struct column, of the `wanted` fields only if they are given."""
        fields = (
            f"{name(field)}:{field_type}" for field, field_type in self.fields() if wanted is None or field in wanted
        )
        return f"STRUCT<{','.join(fields)}>"

    def unchanged(self) -> tuple[tuple[str, Tree], ...]:
        """The fields as they are."""
        return tuple((field, self.part(field)) for field, _ in self.fields())

    def at(self, level: int) -> Handle:
        """The same relation after passing untouched through levels."""
        return replace(self, level=level)


def row_columns(handles: Iterable[Handle]) -> Mapping[str, str]:
    """The columns of rows of these relations, with their Spark types."""
    return {**ENVELOPE, **{struct_column(handle.relation): handle.struct_type() for handle in handles}}
