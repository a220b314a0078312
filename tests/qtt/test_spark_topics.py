"""The schemas that a case declares, in the registry before its first statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_qtt.cases.model import Case, Topic
from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.drivers.topics import register_topics
from kestrel_qtt.load import CORPUS_FUNCTIONS
from kestrel_sql.session.session import Session


def ids(*topics: Topic, statements: tuple[str, ...] = ()) -> dict[str, int]:
    session = Session(functions=functions_from(CORPUS_FUNCTIONS))
    register_topics(session, Case(id="c", file=Path("c.json"), line=1, name="c", statements=statements, topics=topics))
    found = ((subject, session.registry.latest(subject)) for subject in session.registry.subjects())
    return {subject: schema.id for subject, schema in found if schema is not None}


@pytest.mark.rules("Q4.3")
def test_ids_follow_the_hash_map_of_topics() -> None:
    topics = (Topic(name="b", value_schema="int", key_schema="string"), Topic(name="a", value_schema="long"))
    assert ids(*topics) == {"a-value": 1, "b-key": 2, "b-value": 3}


def test_topics_of_statements_are_among_them() -> None:
    create = "CREATE STREAM S (V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');"
    assert ids(Topic(name="b", value_schema="int"), Topic(name="z", key_schema="long"), statements=(create,)) == {
        "b-value": 1,
        "s-value": 2,
        "z-key": 3,
    }


@pytest.mark.rules("Q4.3")
def test_declared_ids_come_first() -> None:
    topics = (Topic(name="a", value_schema="int"), Topic(name="b", value_schema="long", value_schema_id=1))
    assert ids(*topics) == {"b-value": 1, "a-value": 2}
