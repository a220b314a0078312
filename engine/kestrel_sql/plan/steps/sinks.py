"""Steps that write a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.plan.step import Formats, Step, TimestampColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSinkV1(Step):
    """Write a stream to a topic."""

    tag: ClassVar[str] = "streamSinkV1"
    source: Step
    formats: Formats
    topic_name: str
    timestamp_column: TimestampColumn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSinkV1(Step):
    """Write a table to a topic."""

    tag: ClassVar[str] = "tableSinkV1"
    source: Step
    formats: Formats
    topic_name: str
    timestamp_column: TimestampColumn | None = None
