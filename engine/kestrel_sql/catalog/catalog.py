"""The immutable set of known sources and custom types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.plan.step import Formats, TimestampColumn, WindowInfo
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A stream or table over a topic.

    `is_source` marks a read-only CREATE SOURCE object, `created_by` is the id of the CREATE AS query that feeds it. `ingestion` says how
    the messages of a source in the manner of Materialize are read; its `formats` are then those that others inherit.
    """

    name: str
    kind: SourceKind
    schema: Schema
    topic: str
    formats: Formats
    timestamp_column: TimestampColumn | None = None
    window: WindowInfo | None = None
    is_source: bool = False
    created_by: str | None = None
    statement_text: str = ""
    ingestion: IngestionSpec | None = None

    @property
    def message_formats(self) -> Formats:
        """How the messages of the topic are written."""
        return self.formats if self.ingestion is None else self.ingestion.formats

    @property
    def message_schema(self) -> Schema:
        """The columns that the messages of the topic hold."""
        return self.schema if self.ingestion is None else self.ingestion.message_schema


@dataclass(frozen=True, slots=True)
class Catalog:
    """Sources and custom types by name; changed copies are made by the `with_` and `without_` methods."""

    sources: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}))
    types: Mapping[str, SqlType] = field(default_factory=lambda: MappingProxyType({}))

    def with_source(self, source: Source) -> Catalog:
        """Add `source`, or replace the one of its name."""
        return replace(self, sources=MappingProxyType({**self.sources, source.name: source}))

    def without_source(self, name: str) -> Catalog:
        """Remove the source called `name`, if there is one."""
        return replace(self, sources=MappingProxyType({k: v for k, v in self.sources.items() if k != name}))

    def with_type(self, name: str, sql_type: SqlType) -> Catalog:
        """Add a custom type, or replace the one of its name."""
        return replace(self, types=MappingProxyType({**self.types, name: sql_type}))

    def without_type(self, name: str) -> Catalog:
        """Remove the custom type called `name`, if there is one."""
        return replace(self, types=MappingProxyType({k: v for k, v in self.types.items() if k != name}))
