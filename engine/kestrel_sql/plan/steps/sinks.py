"""Steps that write a topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kestrel_sql.plan.step import Formats, Step, TimestampColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSinkV1(Step):
    """Write a stream to a topic."""

    tag: ClassVar[str] = "streamSinkV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "timestamp_column")
    source: Step
    formats: Formats
    topic_name: str = field(metadata={"word": "topic"})
    timestamp_column: TimestampColumn | None = field(default=None, metadata={"word": "TIMESTAMP"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSinkV1(Step):
    """Write a table to a topic."""

    tag: ClassVar[str] = "tableSinkV1"
    row_by_row: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "timestamp_column")
    source: Step
    formats: Formats
    topic_name: str = field(metadata={"word": "topic"})
    timestamp_column: TimestampColumn | None = field(default=None, metadata={"word": "TIMESTAMP"})
