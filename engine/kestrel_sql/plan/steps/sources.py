"""Steps that read a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.plan.step import Formats, Step, TimestampColumn, WindowInfo
from kestrel_sql.types.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSourceV1(Step):
    """Read a topic as a stream."""

    tag: ClassVar[str] = "streamSourceV1"
    topic_name: str
    formats: Formats
    timestamp_column: TimestampColumn | None = None
    source_schema: Schema
    pseudo_column_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedStreamSourceV1(Step):
    """Read a topic with windowed keys as a stream."""

    tag: ClassVar[str] = "windowedStreamSourceV1"
    topic_name: str
    formats: Formats
    window_info: WindowInfo
    timestamp_column: TimestampColumn | None = None
    source_schema: Schema
    pseudo_column_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSourceV1(Step):
    """Read a topic as a table whose only pseudo column is ROWTIME."""

    tag: ClassVar[str] = "tableSourceV1"
    topic_name: str
    formats: Formats
    timestamp_column: TimestampColumn | None = None
    source_schema: Schema
    force_changelog: bool = False
    pseudo_column_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSourceV2(Step):
    """Read a topic as a table; its stored rows include headers, partition and offset."""

    tag: ClassVar[str] = "tableSourceV2"
    topic_name: str
    formats: Formats
    timestamp_column: TimestampColumn | None = None
    source_schema: Schema
    pseudo_column_version: int
    state_store_formats: Formats


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedTableSourceV1(Step):
    """Read a topic with windowed keys as a table."""

    tag: ClassVar[str] = "windowedTableSourceV1"
    topic_name: str
    formats: Formats
    window_info: WindowInfo
    timestamp_column: TimestampColumn | None = None
    source_schema: Schema
    pseudo_column_version: int = 0
