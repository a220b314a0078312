"""Tests the copies of tables that a server keeps for pull queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.server.broker.tables import TableTopic
from kestrel_sql.session.session import Session

pytestmark = pytest.mark.spark


def test_a_batch_is_shown_when_the_broker_has_marked_its_commit(kafka: KafkaConfig, topic: Callable[..., str]) -> None:
    name, session = topic(1), Session()
    (parsed,) = session.parse(
        f"CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='{name}', VALUE_FORMAT='JSON');"
    )
    session.execute(parsed)
    producer = Producer(kafka.client(transactional_id=name))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b'{"V":1}', b"k", timestamp=5)
    producer.flush(30)
    table = TableTopic(kafka, session.catalog.sources["T"], 1, is_written_by_query=True)
    table.commit(BrokerOffsets(kafka).written([(name, 0)]))
    assert not table.ready.wait(0.3)
    producer.commit_transaction(30)
    assert table.ready.wait(30)
    assert table.rows.by_key == {b"k": (b'{"V":1}', 5)}
    table.close()
