"""The topics of the streams and tables that statements define."""

from __future__ import annotations

from dataclasses import dataclass

from kestrel_sql.sql.nodes import statements as s


@dataclass(frozen=True, slots=True)
class Topic:
    """The kind and topic of a stream or table."""

    kind: s.SourceKind
    name: str


def topic_of(statement: s.CreateSource | s.CreateAs) -> Topic:
    """Return the topic that a statement names, which has the name of the stream or table by default."""
    return Topic(statement.kind, str(dict(statement.properties).get("KAFKA_TOPIC", statement.name)))
