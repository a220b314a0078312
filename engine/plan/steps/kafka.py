"""Steps that read a topic as CREATE SOURCE … FROM KAFKA says; they are Kestrel's own (docs/adr/0012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.plan.intake import Intake
from engine.plan.step import Formats, Step
from engine.types.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamSourceV1(Step):
    """Read the messages of a topic as a stream; `formats` are those that others inherit, `intake` says how messages are read."""

    tag: ClassVar[str] = "kafkaStreamSourceV1"
    topic_name: str
    formats: Formats
    intake: Intake
    source_schema: Schema
    pseudo_column_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTableSourceV1(Step):
    """Read the messages of a topic as a table."""

    tag: ClassVar[str] = "kafkaTableSourceV1"
    topic_name: str
    formats: Formats
    intake: Intake
    source_schema: Schema
    pseudo_column_version: int
