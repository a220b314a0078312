"""Tests the ends of topics during an open transaction, and while producers write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread, Timer

import pytest
from confluent_kafka import Producer

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import last_records
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


def test_the_last_records_of_a_topic_are_found_while_producers_write(
    kafka: KafkaConfig, topic: Callable[..., str]
) -> None:
    name, ended = topic(1), Event()
    producer = Producer(kafka.client(**{"linger.ms": 1}))

    def write() -> None:
        while not ended.is_set():
            producer.produce(name, b"v", b"k")
            # Before a reader that is at the end has waited for 20 ms.
            producer.poll(0.003)
        producer.flush()

    thread = Thread(target=write)
    thread.start()
    giving_up = Timer(10, ended.set)
    giving_up.start()
    try:
        assert len(last_records(kafka, name, 100)) <= 100
        assert not ended.is_set()
    finally:
        ended.set()
        giving_up.cancel()
        thread.join()
