"""What the Kafka client of Python costs a record, without any code of ours: processor time, its own threads included.

    python -m tests.bench client           (ROWS=300000 and ROUNDS=3 by default, as environment variables)

The sink calls `produce` for each record, with its timestamp, in a transaction. The merged source, which joins read
from, gets messages by `consume`. Spark's own source and sink use Kafka's Java client instead. `produce_batch` takes no
timestamps and no headers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kestrel_sql.kafka.broker.broker import Broker
from tests.bench.measure import machine
from tests.kafka.helpers import create

ROWS, ROUNDS = int(os.environ.get("ROWS", "300000")), int(os.environ.get("ROUNDS", "3"))
_PARTITIONS, _AT_ONCE = 2, 10_000
_KEYS = [b"k%d" % number for number in range(1000)]
_VALUE = b'{"CUSTOMER": "customer 4711", "AMOUNT": 47}'
_FIRST_MS = 1_700_000_000_000


def main() -> None:
    """Measure and print."""
    print(f"{ROWS:,} records in {_PARTITIONS} partitions, {machine()}")
    with Broker.start() as broker:
        create(broker.address, _PARTITIONS, *(f"t{turn}" for turn in range(ROUNDS)))
        for turn in range(ROUNDS):
            topic = f"t{turn}"
            produced = _microseconds(lambda topic=topic: _produce(broker.address, topic))
            consumed = _microseconds(lambda topic=topic: _consume(broker.address, topic))
            print(f"  round {turn + 1}: produce {produced:.2f} µs, consume {consumed:.2f} µs a record")


def _microseconds(work: Callable[[], None]) -> float:
    before = time.process_time()
    work()
    return (time.process_time() - before) / ROWS * 1e6


def _produce(servers: str, topic: str) -> None:
    settings = {"bootstrap.servers": servers, "transactional.id": topic, "linger.ms": 5, "compression.type": "lz4"}
    producer = Producer({**settings, "queue.buffering.max.messages": 200_000, "delivery.report.only.error": True})
    producer.init_transactions(60)
    producer.begin_transaction()
    produce = producer.produce
    for number in range(ROWS):
        while True:
            try:
                produce(topic, _VALUE, _KEYS[number % 1000], number % _PARTITIONS, timestamp=_FIRST_MS + number)
                break
            except BufferError:
                producer.poll(0.1)
    producer.commit_transaction(60)


def _consume(servers: str, topic: str) -> None:
    settings = {"bootstrap.servers": servers, "group.id": "bench", "isolation.level": "read_committed"}
    consumer: Any = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(_PARTITIONS)])
    left = ROWS
    while left:
        left -= len(consumer.consume(min(left, _AT_ONCE), timeout=1))
    consumer.close()
