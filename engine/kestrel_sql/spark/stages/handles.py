"""Handles: what the builders of steps pass on, a relation with its level and the columns of its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.stage import ENVELOPE, struct_column
from kestrel_sql.spark.types import name, struct_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle(Relation):
    """A relation between two steps of a group.

    Its struct column has the fields `k` (the key columns, also where there are none) and `v` (the value columns), and
    some of `o` (the previous value), `ok` (the previous key of a grouped table) and `x` (columns that an operator
    needs). `level` is the number of stateful levels before it.
    """

    relation: int
    level: int

    def part(self, *path: str) -> Tree:
        """Return a field of the relation's struct as SQL, such as `part("v", "F")`."""
        return s.column(struct_column(self.relation), *path)

    def values(self, part: str = "v") -> Mapping[str, Tree]:
        """The value columns as SQL, by name."""
        return {column.name: self.part(part, column.name) for column in self.schema.value}

    def keys(self) -> Mapping[str, Tree]:
        """The key columns as SQL, by name."""
        return {column.name: self.part("k", column.name) for column in self.schema.key}

    def fields(self) -> tuple[tuple[str, str], ...]:
        """The fields of the struct with their Spark types."""
        key, value = struct_of(self.schema.key), struct_of(self.schema.value)
        present = [("k", key), ("v", value)]
        if self.has_old:
            present.append(("o", value))
        if self.has_old_key:
            present.append(("ok", key))
        if self.extra:
            present.append(("x", struct_of(self.extra)))
        return tuple(present)

    def struct_type(self, wanted: Collection[str] | None = None) -> str:
        """The Spark type of the struct column, restricted to the `wanted` fields if they are given."""
        fields = (
            f"{name(field)}:{field_type}" for field, field_type in self.fields() if wanted is None or field in wanted
        )
        return f"STRUCT<{','.join(fields)}>"

    def unchanged(self) -> tuple[tuple[str, Tree], ...]:
        """The fields of the struct as SQL, unchanged."""
        return tuple((field, self.part(field)) for field, _ in self.fields())

    def at(self, level: int) -> Handle:
        """Return the same relation at another level."""
        return replace(self, level=level)


def row_columns(handles: Iterable[Handle]) -> Mapping[str, str]:
    """The columns of a frame with rows of these relations, with their Spark types."""
    return {**ENVELOPE, **{struct_column(handle.relation): handle.struct_type() for handle in handles}}
