"""The topics of the streams and tables that statements define."""

from __future__ import annotations

import msgspec

from kestrel_qtt.cases.model import Case
from kestrel_qtt.drivers.partitions import PARTITIONS, declared_partitions, named_partitions
from kestrel_sql.errors import EngineError
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes import statements as s


class Topic(msgspec.Struct, frozen=True):
    """The kind and topic of a stream or table."""

    kind: s.SourceKind
    name: str


def topic_of(statement: s.CreateSource | s.CreateAs) -> Topic:
    """Return the topic that a statement names, which has the name of the stream or table by default."""
    return Topic(statement.kind, str(dict(statement.properties).get("KAFKA_TOPIC", statement.name)))


def expected_topics(case: Case) -> dict[str, int]:
    """The topics that a case expects to be there, those of sources and inputs, and their partitions (rule Q4.2)."""
    declared, named = declared_partitions(case.topics), named_partitions(case.inputs)
    found = {**declared, **dict.fromkeys((given.topic for given in case.inputs), 0)}
    session = Session(variables=dict(case.variables))
    for text in case.statements:
        try:
            parsed = [each.statement for each in session.parse(text)]
        except EngineError:
            continue
        for statement in parsed:
            if isinstance(statement, s.CreateSource):
                topic, count = topic_of(statement).name, str(dict(statement.properties).get("PARTITIONS", ""))
                found[topic] = found.get(topic) or (int(count) if count.isdecimal() else 0)
    return {topic: max(named.get(topic, 1), count or PARTITIONS) for topic, count in found.items()}
