"""The catalog: an immutable set of streams, tables and custom types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import Span, StatementError, UnknownSourceError, did_you_mean, other_case
from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.plan.step import Formats, TimestampColumn, WindowInfo
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import SqlType


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A stream or table over a topic.

    `is_source` marks a read-only source (CREATE SOURCE); `created_by` is the id of the CREATE AS query that writes the
    topic, and `derived_from` names the sources that this query reads. `ingestion` is set for a CREATE SOURCE … FROM
    KAFKA and says how its messages are read; `formats` are then those that queries over the source inherit.
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
    derived_from: tuple[str, ...] = ()
    statement_text: str = ""
    ingestion: IngestionSpec | None = None

    @property
    def message_formats(self) -> Formats:
        """The formats of the messages in the topic."""
        return self.formats if self.ingestion is None else self.ingestion.formats

    @property
    def message_schema(self) -> Schema:
        """The columns of the messages in the topic."""
        return self.schema if self.ingestion is None else self.ingestion.message_schema


class Catalog(msgspec.Struct, frozen=True):
    """Sources and custom types by name; the `with_` and `without_` methods return changed copies."""

    sources: Mapping[str, Source] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    types: Mapping[str, SqlType] = msgspec.field(default_factory=lambda: MappingProxyType({}))

    def with_source(self, source: Source) -> Catalog:
        """Return a copy with `source`, which replaces a source of the same name."""
        return replace(self, sources=MappingProxyType({**self.sources, source.name: source}))

    def without_source(self, name: str) -> Catalog:
        """Return a copy without the source `name`; the name may be unknown."""
        return replace(self, sources=MappingProxyType({k: v for k, v in self.sources.items() if k != name}))

    def with_type(self, name: str, sql_type: SqlType) -> Catalog:
        """Return a copy with a custom type, which replaces a type of the same name."""
        return replace(self, types=MappingProxyType({**self.types, name: sql_type}))

    def without_type(self, name: str) -> Catalog:
        """Return a copy without the custom type `name`; the name may be unknown."""
        return replace(self, types=MappingProxyType({k: v for k, v in self.types.items() if k != name}))

    def derived(self, name: str) -> tuple[str, ...]:
        """The names of the sources whose CREATE AS reads the source `name`, which must stay as long as they are."""
        return tuple(sorted(source.name for source in self.sources.values() if name in source.derived_from))

    def missing_source(
        self, message: str, name: str, span: Span | None, kind: type[StatementError] = UnknownSourceError
    ) -> StatementError:
        """Make an error for a source that does not exist; it suggests the sources with a similar name."""
        suggestion = other_case(name, self.sources, "source")
        return kind(message + suggestion, span=span, hint=did_you_mean(name, self.sources))
