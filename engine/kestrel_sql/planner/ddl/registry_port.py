"""Defines the planner's interface to a schema registry."""

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

    Attributes:
        side: key or value.
        unwrapped: whether the whole schema becomes one column, ROWKEY or ROWVAL.
        full_name: selects one of several definitions in the schema.
        unwrap_primitives: whether wrapper messages of PROTOBUF are the primitives in them or structs.
        keep_case: whether names keep their case (schemas given by id) or become upper case.
    """

    side: Side
    unwrapped: bool
    full_name: str | None = None
    unwrap_primitives: bool = True
    keep_case: bool = False


class SchemaLookup(Protocol):
    """The schema registry as the planner reads it."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of `subject`, or None."""
        ...

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with this id, or None."""
        ...

    def full_name(self, schema: RegisteredSchema) -> str | None:
        """Return the full name of the record, or of the first message, in `schema`; None if it has no name."""
        ...

    def columns(self, schema: RegisteredSchema, options: ColumnOptions) -> tuple[Column, ...] | None:
        """Convert a schema to columns (rules F8); return None if it does not define `full_name`.

        Raises:
            RegistryError: the schema cannot be converted, or has several definitions and no name was given.
        """
        ...


class NoRegistry:
    """A schema registry without schemas."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return None."""
        return None

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return None."""
        return None

    def full_name(self, schema: RegisteredSchema) -> str | None:
        """Return None."""
        return None

    def columns(self, schema: RegisteredSchema, options: ColumnOptions) -> tuple[Column, ...] | None:
        """Return None."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A schema that a statement registers.

    Without `schema_id` the schema is generated from `columns`; else the schema with that id is registered and must get
    the same id. With `only_if_absent` nothing is registered if the subject has a schema.
    """

    subject: str
    side: Side
    format: FormatInfo
    columns: tuple[Column, ...]
    features: frozenset[SerdeFeature]
    schema_id: int | None = None
    only_if_absent: bool = False
