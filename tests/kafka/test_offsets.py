"""Tests the ends of topics during an open transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from confluent_kafka import Producer

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets

pytestmark = pytest.mark.spark


def test_an_open_transaction_is_waited_for_but_not_for_ever(kafka: KafkaConfig, topic: Callable[..., str]) -> None:
    name, offsets = topic(1), BrokerOffsets(kafka)
    assert offsets.settle([name])
    with closing(Producer(kafka.client(transactional_id=name))) as producer:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(name, b"v")
        producer.flush(30)
        assert offsets.ends([(name, 0)]) == {(name, 0): 0}
        assert not offsets.settle([name], patience=0.2)
        producer.commit_transaction(30)
    assert offsets.settle([name])
    assert offsets.ends([(name, 0)])[name, 0] >= 1
