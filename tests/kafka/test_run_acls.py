"""Tests a broker with ACLs: errors have its message, the topic, and the missing ACL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import read_topics
from kestrel_sql.kafka.sink.sink import write_batch
from kestrel_sql.spark.runtime.session import open_session
from tests.kafka.helpers import create, produce
from tests.kafka.secured import PASSWORD, Right, Secured, forbid
from tests.kafka.test_sink import frame, row
from tests.kafka.unstarted import execute

pytestmark = pytest.mark.spark

GROUP = "kestrel-x"
SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='source', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (KAFKA_TOPIC='{0}') AS SELECT * FROM S;
"""


@pytest.fixture(scope="module")
def ann(secured: Secured) -> Iterator[KafkaConfig]:
    create(secured.open, 1, "source", "sink")
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }
    yield KafkaConfig(servers=secured.sasl, properties=login)
    forbid(secured.open)


@pytest.mark.parametrize(
    ("right", "sink", "said", "hint"),
    [
        ((ResourceType.TOPIC, "source", AclOperation.READ), "sink", "CSAS_A_0 may not read the topic source: ", "READ"),
        (
            (ResourceType.TOPIC, "source", AclOperation.DESCRIBE),
            "sink",
            "the topic source: Broker: Topic authorization failed",
            "DESCRIBE",
        ),
        ((ResourceType.TOPIC, "sink", AclOperation.WRITE), "sink", "CSAS_A_0 may not write the topic sink: ", "WRITE"),
        ((ResourceType.TOPIC, "new", AclOperation.CREATE), "new", "the topic new was not created: ", "CREATE"),
    ],
    ids=["read", "describe", "write", "create"],
)
def test_a_forbidden_topic_is_reported_before_the_start(
    secured: Secured, ann: KafkaConfig, tmp_path: Path, right: Right, sink: str, said: str, hint: str
) -> None:
    forbid(secured.open, right)
    with pytest.raises(QueryError) as caught:
        execute(ann, tmp_path, SCRIPT.format(sink))
    assert said in caught.value.message
    assert hint in str(caught.value.hint)
    assert PASSWORD not in caught.value.render()


def test_who_may_do_everything_is_not_held_up(secured: Secured, ann: KafkaConfig, tmp_path: Path) -> None:
    forbid(secured.open)
    execute(ann, tmp_path, SCRIPT.format("sink"))


@pytest.mark.parametrize(
    ("right", "statement", "said", "hint"),
    [
        (
            (ResourceType.TOPIC, "source", AclOperation.READ),
            "PRINT source FROM BEGINNING;",
            "Topic authorization failed",
            "READ",
        ),
        (
            (ResourceType.TOPIC, "doomed", AclOperation.DELETE),
            "DROP STREAM D DELETE TOPIC;",
            "the topic doomed was not deleted",
            "DELETE",
        ),
    ],
    ids=["print", "delete"],
)
def test_a_statement_that_is_not_allowed_says_so(
    secured: Secured, ann: KafkaConfig, tmp_path: Path, right: Right, statement: str, said: str, hint: str
) -> None:
    forbid(secured.open, right)
    produce(secured.open, "source", [("k", "1", 5)])
    made = "CREATE STREAM D (V INT) WITH (KAFKA_TOPIC='doomed', VALUE_FORMAT='JSON', PARTITIONS=1);"
    with pytest.raises(EngineError) as caught:
        execute(ann, tmp_path, made + statement)
    assert said in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return open_session()


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (
            (ResourceType.TOPIC, "sink", AclOperation.WRITE),
            "a record for sink-0, caused by source-0 at offset 7, was refused: ",
        ),
        ((ResourceType.GROUP, GROUP, AclOperation.READ), "Group authorization failed"),
        ((ResourceType.TRANSACTIONAL_ID, f"{GROUP}-0", AclOperation.WRITE), "Transactional Id authorization failed"),
    ],
    ids=["topic", "group", "transactional id"],
)
def test_an_acl_removed_during_a_run_is_reported_by_the_batch(
    secured: Secured, ann: KafkaConfig, spark: SparkSession, right: Right, said: str
) -> None:
    forbid(secured.open, right)
    records = frame(spark, [row("sink", 1, b"k", b"v", src_topic="source", src_part=0, src_off=7)])
    started = time.monotonic()
    with pytest.raises(QueryError) as caught:
        write_batch(records, 0, query=GROUP, config=ann, slots=1)
    assert said in caught.value.message
    assert "uthorization failed" in caught.value.message
    assert time.monotonic() - started < 50, "it is not taken for a broker that is away"
    assert read_topics(KafkaConfig(servers=secured.open), ["sink"])["sink"] == []
