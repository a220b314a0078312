"""What the planner asks of a schema registry, and what it asks to be registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import Side
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.types.schema import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """How a registered schema becomes columns.

    `unwrapped` makes the whole schema one column called ROWKEY or ROWVAL; `full_name` selects one of several definitions; `keep_case`
    leaves names as they are instead of writing them upper case (schemas asked for by id).
    """

    side: Side
    format: str
    unwrapped: bool
    full_name: str | None = None
    keep_case: bool = False


class SchemaLookup(Protocol):
    """The schema registry as the planner sees it; nothing is written through it."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Find the newest schema of `subject`, or None."""
        ...

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Find the schema with that id, or None."""
        ...

    def full_name(self, schema: RegisteredSchema) -> str | None:
        """Give the name of the record or of the first message of `schema`, None where it has none."""
        ...

    def columns(self, schema: RegisteredSchema, options: ColumnOptions) -> tuple[Column, ...] | None:
        """Turn a schema into columns of the role KEY or VALUE (rules F8); None if it has no definition `full_name`.

        Raises:
            RegistryError: a schema of which no column can be made, or with several definitions and no `full_name`.
        """
        ...


class NoRegistry:
    """A schema registry that holds nothing."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Find nothing."""
        return None

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Find nothing."""
        return None

    def full_name(self, schema: RegisteredSchema) -> str | None:
        """Give no name."""
        return None

    def columns(self, schema: RegisteredSchema, options: ColumnOptions) -> tuple[Column, ...] | None:
        """Make no columns."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A schema that a statement puts into the registry.

    `schema_id` None writes a schema made from `columns`; else the schema of that id is registered as it is and must get the same id.
    `only_if_absent` leaves a subject alone that has a schema.
    """

    subject: str
    side: Side
    format: FormatInfo
    columns: tuple[Column, ...]
    features: frozenset[SerdeFeature]
    schema_id: int | None = None
    only_if_absent: bool = False
