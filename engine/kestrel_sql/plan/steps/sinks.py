"""Steps that write a topic."""

from __future__ import annotations

from typing import Annotated, ClassVar

from kestrel_sql.plan.step import Formats, Shown, Step, TimestampColumn


class StreamSinkV1(Step, frozen=True, kw_only=True):
    """Write a stream to a topic."""

    tag: ClassVar[str] = "streamSinkV1"
    row_by_row: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "timestamp_column")
    source: Step
    formats: Formats
    topic_name: Annotated[str, Shown("topic")]
    timestamp_column: Annotated[TimestampColumn | None, Shown("TIMESTAMP")] = None


class TableSinkV1(Step, frozen=True, kw_only=True):
    """Write a table to a topic."""

    tag: ClassVar[str] = "tableSinkV1"
    row_by_row: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "timestamp_column")
    source: Step
    formats: Formats
    topic_name: Annotated[str, Shown("topic")]
    timestamp_column: Annotated[TimestampColumn | None, Shown("TIMESTAMP")] = None
