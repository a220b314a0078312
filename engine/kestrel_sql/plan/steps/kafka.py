"""Kestrel's own steps (docs/adr/0012): read a CREATE SOURCE … FROM KAFKA, and set the headers of output records."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.plan.step import Formats, Shown, Step
from kestrel_sql.plan.steps.sources import ReadsTopic
from kestrel_sql.types.schema import Schema


class KafkaStreamSourceV1(ReadsTopic, Step, frozen=True, kw_only=True):
    """Read the messages of a topic as a stream, as `ingestion` says; queries over the source inherit `formats`."""

    tag: ClassVar[str] = "kafkaStreamSourceV1"
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "ingestion")
    topic_name: Annotated[str, Shown("topic")]
    formats: Formats
    ingestion: IngestionSpec = msgspec.field(name="intake")
    source_schema: Schema
    pseudo_column_version: int


class KafkaTableSourceV1(ReadsTopic, Step, frozen=True, kw_only=True):
    """Read the messages of a topic as a table, as `ingestion` says; queries over the source inherit `formats`."""

    tag: ClassVar[str] = "kafkaTableSourceV1"
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "ingestion")
    topic_name: Annotated[str, Shown("topic")]
    formats: Formats
    ingestion: IngestionSpec = msgspec.field(name="intake")
    source_schema: Schema
    pseudo_column_version: int


class StreamHeadersV1(Step, frozen=True, kw_only=True):
    """Set each row's headers from a column: a map from STRING to STRING or BYTES, or an array of header structs."""

    tag: ClassVar[str] = "streamHeadersV1"
    kept: ClassVar[tuple[str, ...]] = ("headers_column",)
    source: Step
    headers_column: str


class TableHeadersV1(Step, frozen=True, kw_only=True):
    """Set the headers of each table change from a column; a deletion takes them from the deleted row."""

    tag: ClassVar[str] = "tableHeadersV1"
    kept: ClassVar[tuple[str, ...]] = ("headers_column",)
    source: Step
    headers_column: str
