"""DDL commands: the changes to the catalog that a plan stores."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kestrel_sql.plan.ingestion import Envelope, IngestionSpec
from kestrel_sql.plan.step import Formats, TimestampColumn, WindowInfo
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import SqlType


class CreateStreamV1(msgspec.Struct, frozen=True, kw_only=True):
    """Register a stream."""

    tag: ClassVar[str] = "createStreamV1"
    source_name: str
    schema: Schema
    timestamp_column: TimestampColumn | None = None
    topic_name: str
    formats: Formats
    window_info: WindowInfo | None = None
    or_replace: bool = False
    is_source: bool = False


class CreateTableV1(msgspec.Struct, frozen=True, kw_only=True):
    """Register a table."""

    tag: ClassVar[str] = "createTableV1"
    source_name: str
    schema: Schema
    timestamp_column: TimestampColumn | None = None
    topic_name: str
    formats: Formats
    window_info: WindowInfo | None = None
    or_replace: bool = False
    is_source: bool = False


class CreateKafkaSourceV1(msgspec.Struct, frozen=True, kw_only=True):
    """Register a read-only source in the manner of Materialize; ksqlDB has no such command.

    It is a stream under ENVELOPE NONE, else a table. Queries over the source inherit `formats`; `ingestion` says how
    its messages are read.
    """

    tag: ClassVar[str] = "createKafkaSourceV1"
    source_name: str
    schema: Schema
    topic_name: str
    formats: Formats
    ingestion: IngestionSpec = msgspec.field(name="intake")

    @property
    def kind(self) -> SourceKind:
        """Whether the source is a stream or a table."""
        return SourceKind.STREAM if self.ingestion.envelope is Envelope.NONE else SourceKind.TABLE


class RegisterTypeV1(msgspec.Struct, frozen=True, kw_only=True):
    """Register a custom type; a name that exists keeps its type."""

    tag: ClassVar[str] = "registerTypeV1"
    type: SqlType
    type_name: str


class DropTypeV1(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a custom type, if it exists."""

    tag: ClassVar[str] = "dropTypeV1"
    type_name: str


class DropSourceV1(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a stream or table, if it exists."""

    tag: ClassVar[str] = "dropSourceV1"
    source_name: str


class AlterSourceV1(msgspec.Struct, frozen=True, kw_only=True):
    """Append value columns to a stream or table."""

    tag: ClassVar[str] = "alterSourceV1"
    source_name: str
    ksql_type: SourceKind
    new_columns: tuple[Column, ...]


DdlCommand = (
    CreateStreamV1 | CreateTableV1 | CreateKafkaSourceV1 | RegisterTypeV1 | DropTypeV1 | DropSourceV1 | AlterSourceV1
)
