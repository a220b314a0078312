"""Topics in memory by the rules of a broker."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import StatementError
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.session.session import Session
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record

CREATE = "CREATE STREAM {0} (k STRING KEY, v INT) WITH (kafka_topic='{1}', value_format='JSON'{2});"
MADE = CREATE.format("s", "t", ", partitions=3")


def engine_of(text: str, rule: TopicRule = TopicRule.BROKER) -> MemoryEngine:
    engine = MemoryEngine(Session(), topics=rule)
    tell(engine, text)
    return engine


def tell(engine: MemoryEngine, text: str) -> None:
    for parsed in engine.session.parse(text):
        engine.execute(parsed)


@pytest.mark.rules("L6.4")
def test_partitions_are_made_and_records_go_by_their_keys() -> None:
    engine = engine_of(MADE + CREATE.format("same", "t", "") + "CREATE STREAM o AS SELECT * FROM s;")
    assert engine.broker.partitions_and_replicas(["t", "O"]) == {"t": (3, 1), "O": (3, 1)}
    keys = [b"a", b"b", b"c", b"d", b"e"]
    for key in keys:
        engine.produce(Record(topic="t", key=key, value=b"{}", timestamp=1))
    assert [record.partition for record in engine.broker.records("t")] == [partition_of(key, 3) for key in keys]
    tell(engine, "DROP STREAM o DELETE TOPIC; DROP STREAM same; DROP STREAM s DELETE TOPIC;")
    tell(engine, CREATE.format("s", "t", ", partitions=2"))
    assert engine.broker.partitions_and_replicas(["t"]) == {"t": (2, 1)}


@pytest.mark.rules("L6.4")
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (CREATE.format("x", "nowhere", ""), "the topic nowhere does not exist"),
        (CREATE.format("x", "t", ", partitions=2"), "the topic t exists and has 3 partitions, not 2"),
        (CREATE.format("x", "t", ", partitions=3, replicas=2"), "has 1 replicas, not 2"),
        (CREATE.format("x", "n", ", partitions=3, replicas=2"), "the topic n was not created"),
        (CREATE.format("x", "__n", ", partitions=3"), "is internal"),
        ("CREATE STREAM x WITH (kafka_topic='t', partitions=1) AS SELECT * FROM s;", "has 3 partitions, not 1"),
        ("CREATE STREAM x WITH (kafka_topic='one') AS SELECT * FROM s;", "has 1 partitions, not 3"),
        ("CREATE STREAM x WITH (replicas=2) AS SELECT * FROM s;", "the topic X was not created"),
    ],
)
def test_what_a_broker_would_refuse_is_refused_and_leaves_nothing(statement: str, says: str) -> None:
    engine = engine_of(MADE + CREATE.format("one", "one", ", partitions=1"))
    before = engine.session.catalog, dict(engine.session.queries), engine.session.counter, engine.broker.topics
    partitions = dict(engine.session.partitions)
    with pytest.raises(StatementError, match=says):
        tell(engine, statement)
    session = engine.session
    assert (session.catalog, dict(session.queries), session.counter, engine.broker.topics) == before
    assert session.partitions == partitions


@pytest.mark.rules("Q4.2")
def test_a_harness_has_every_topic_that_is_named() -> None:
    engine = engine_of(
        CREATE.format("s", "nowhere", "") + CREATE.format("x", "nowhere", ", partitions=7"), TopicRule.HARNESS
    )
    assert engine.broker.topics == ("nowhere",)
