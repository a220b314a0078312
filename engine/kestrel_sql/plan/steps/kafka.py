"""Kestrel's own steps (docs/adr/0012): read a CREATE SOURCE … FROM KAFKA, and set the headers of output records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.plan.step import Formats, Step
from kestrel_sql.plan.steps.sources import ReadsTopic
from kestrel_sql.types.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamSourceV1(ReadsTopic, Step):
    """Read the messages of a topic as a stream, as `ingestion` says; queries over the source inherit `formats`."""

    tag: ClassVar[str] = "kafkaStreamSourceV1"
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "ingestion")
    topic_name: str = field(metadata={"word": "topic"})
    formats: Formats
    ingestion: IngestionSpec = field(metadata={"json": "intake"})
    source_schema: Schema
    pseudo_column_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTableSourceV1(ReadsTopic, Step):
    """Read the messages of a topic as a table, as `ingestion` says; queries over the source inherit `formats`."""

    tag: ClassVar[str] = "kafkaTableSourceV1"
    kept: ClassVar[tuple[str, ...]] = ("topic_name", "formats", "ingestion")
    topic_name: str = field(metadata={"word": "topic"})
    formats: Formats
    ingestion: IngestionSpec = field(metadata={"json": "intake"})
    source_schema: Schema
    pseudo_column_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHeadersV1(Step):
    """Set each row's headers from a column: a map from STRING to STRING or BYTES, or an array of header structs."""

    tag: ClassVar[str] = "streamHeadersV1"
    kept: ClassVar[tuple[str, ...]] = ("headers_column",)
    source: Step
    headers_column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHeadersV1(Step):
    """Set the headers of each table change from a column; a deletion takes them from the deleted row."""

    tag: ClassVar[str] = "tableHeadersV1"
    kept: ClassVar[tuple[str, ...]] = ("headers_column",)
    source: Step
    headers_column: str
