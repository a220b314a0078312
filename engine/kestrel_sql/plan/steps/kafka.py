"""Kestrel's own steps (docs/adr/0012): they read a topic as CREATE SOURCE … FROM KAFKA says, and give rows their headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.plan.step import Formats, Step
from kestrel_sql.types.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamSourceV1(Step):
    """Read the messages of a topic as a stream; `formats` are those that others inherit, `ingestion` says how messages are read."""

    tag: ClassVar[str] = "kafkaStreamSourceV1"
    topic_name: str
    formats: Formats
    ingestion: IngestionSpec = field(metadata={"json": "intake"})
    source_schema: Schema
    pseudo_column_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTableSourceV1(Step):
    """Read the messages of a topic as a table."""

    tag: ClassVar[str] = "kafkaTableSourceV1"
    topic_name: str
    formats: Formats
    ingestion: IngestionSpec = field(metadata={"json": "intake"})
    source_schema: Schema
    pseudo_column_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHeadersV1(Step):
    """Give each row the headers that a column of it holds: a map from STRING to STRING or BYTES, or a list of headers."""

    tag: ClassVar[str] = "streamHeadersV1"
    source: Step
    headers_column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHeadersV1(Step):
    """Give each change of a table the headers that a column of its row holds; a deletion has those of the row that goes away."""

    tag: ClassVar[str] = "tableHeadersV1"
    source: Step
    headers_column: str
