"""Steps that read a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from kestrel_sql.plan.schemas import source_columns
from kestrel_sql.plan.step import Formats, Shown, Step, TimestampColumn, Typer, WindowInfo
from kestrel_sql.types.schema import Schema

_KEPT = ("topic_name", "formats", "timestamp_column")


class ReadsTopic:
    """What the steps share that read a topic."""

    __slots__ = ()
    windowed: ClassVar[bool] = False
    source_schema: Schema
    pseudo_column_version: int

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """The declared columns, and those that a source appends (rules P6.1)."""
        return source_columns(self.source_schema, pseudo_version=self.pseudo_column_version, windowed=self.windowed)


class StreamSourceV1(ReadsTopic, Step, frozen=True, kw_only=True):
    """Read a topic as a stream."""

    tag: ClassVar[str] = "streamSourceV1"
    shareable: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = _KEPT
    topic_name: Annotated[str, Shown("topic")]
    formats: Formats
    timestamp_column: Annotated[TimestampColumn | None, Shown("TIMESTAMP")] = None
    source_schema: Schema
    pseudo_column_version: int = 0


class WindowedStreamSourceV1(ReadsTopic, Step, frozen=True, kw_only=True):
    """Read a topic with windowed keys as a stream."""

    tag: ClassVar[str] = "windowedStreamSourceV1"
    shareable: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = (*_KEPT, "window_info")
    windowed: ClassVar[bool] = True
    topic_name: Annotated[str, Shown("topic")]
    formats: Formats
    window_info: Annotated[WindowInfo, Shown("WINDOW")]
    timestamp_column: Annotated[TimestampColumn | None, Shown("TIMESTAMP")] = None
    source_schema: Schema
    pseudo_column_version: int = 0


class TableSourceV1(ReadsTopic, Step, frozen=True, kw_only=True):
    """Read a topic as a table whose only pseudo column is ROWTIME."""

    tag: ClassVar[str] = "tableSourceV1"
    kept: ClassVar[tuple[str, ...]] = _KEPT
    topic_name: Annotated[str, Shown("topic")]
    formats: Formats
    timestamp_column: Annotated[TimestampColumn | None, Shown("TIMESTAMP")] = None
    source_schema: Schema
    force_changelog: bool = False
    pseudo_column_version: int = 0


class TableSourceV2(ReadsTopic, Step, frozen=True, kw_only=True):
    """Read a topic as a table; its stored rows include headers, partition and offset."""

    tag: ClassVar[str] = "tableSourceV2"
    kept: ClassVar[tuple[str, ...]] = (*_KEPT, "state_store_formats")
    topic_name: Annotated[str, Shown("topic")]
    formats: Formats
    timestamp_column: Annotated[TimestampColumn | None, Shown("TIMESTAMP")] = None
    source_schema: Schema
    pseudo_column_version: int
    state_store_formats: Formats


class WindowedTableSourceV1(ReadsTopic, Step, frozen=True, kw_only=True):
    """Read a topic with windowed keys as a table."""

    tag: ClassVar[str] = "windowedTableSourceV1"
    kept: ClassVar[tuple[str, ...]] = (*_KEPT, "window_info")
    windowed: ClassVar[bool] = True
    topic_name: Annotated[str, Shown("topic")]
    formats: Formats
    window_info: Annotated[WindowInfo, Shown("WINDOW")]
    timestamp_column: Annotated[TimestampColumn | None, Shown("TIMESTAMP")] = None
    source_schema: Schema
    pseudo_column_version: int = 0
