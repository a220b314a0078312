"""Tests a broker with ACLs: errors have its message, the topic, and the missing ACL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.kafka.broker.broker import HOST, Broker, free_port
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import read_topics
from kestrel_sql.kafka.sink.sink import write_batch
from kestrel_sql.spark.runtime.session import open_session
from tests.kafka.helpers import create, produce
from tests.kafka.test_sink import frame, row
from tests.kafka.unstarted import execute

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("kafka")]

Right = tuple[ResourceType, str, AclOperation]

PASSWORD = "pw-of-ann"
GROUP = "kestrel-x"
ALL: tuple[Right, ...] = (
    (ResourceType.TOPIC, "*", AclOperation.ALL),
    (ResourceType.GROUP, "*", AclOperation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
)
SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='source', VALUE_FORMAT='JSON');
CREATE STREAM A WITH (KAFKA_TOPIC='{0}') AS SELECT * FROM S;
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker where ACLs restrict the user ann, and anonymous users may do everything."""
    sasl = f"SASL://{HOST}:{free_port()}"
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": sasl,
        "advertised.listeners": sasl,
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{plain} user_ann="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker.start(more=settings) as started:
        create(started.address, 1, "source", "sink")
        yield started


@pytest.fixture(scope="module")
def ann(broker: Broker) -> KafkaConfig:
    listeners = (broker.data / "server.properties").read_text(encoding="utf-8").partition("SASL://")[2]
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }
    return KafkaConfig(servers=listeners.splitlines()[0], properties=login)


def forbid(broker: Broker, *rights: Right) -> None:
    """Give ann all ACLs but one."""
    admin = admin_client(KafkaConfig(servers=broker.address))
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for future in admin.delete_acls([every]).values():
        future.result()
    entries = [(right, AclPermissionType.ALLOW) for right in ALL] + [
        (right, AclPermissionType.DENY) for right in rights
    ]
    made = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ann", "*", operation, permission)
        for (kind, name, operation), permission in entries
    ]
    for future in admin.create_acls(made).values():
        future.result()
    # The controller says that they are there before the broker goes by them.
    time.sleep(0.5)


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
    broker: Broker, ann: KafkaConfig, tmp_path: Path, right: Right, sink: str, said: str, hint: str
) -> None:
    forbid(broker, right)
    with pytest.raises(QueryError) as caught:
        execute(ann, tmp_path, SCRIPT.format(sink))
    assert said in caught.value.message
    assert hint in str(caught.value.hint)
    assert PASSWORD not in caught.value.render()


def test_who_may_do_everything_is_not_held_up(broker: Broker, ann: KafkaConfig, tmp_path: Path) -> None:
    forbid(broker)
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
    broker: Broker, ann: KafkaConfig, tmp_path: Path, right: Right, statement: str, said: str, hint: str
) -> None:
    forbid(broker, right)
    produce(broker.address, "source", [("k", "1", 5)])
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
    broker: Broker, ann: KafkaConfig, spark: SparkSession, right: Right, said: str
) -> None:
    forbid(broker, right)
    records = frame(spark, [row("sink", 1, b"k", b"v", src_topic="source", src_part=0, src_off=7)])
    started = time.monotonic()
    with pytest.raises(QueryError) as caught:
        write_batch(records, 0, query=GROUP, config=ann, slots=1)
    assert said in caught.value.message
    assert "uthorization failed" in caught.value.message
    assert time.monotonic() - started < 50, "it is not taken for a broker that is away"
    assert read_topics(KafkaConfig(servers=broker.address), ["sink"])["sink"] == []
