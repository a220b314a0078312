"""A sink that writes in transactions of Kafka's client for Python; workers import it, as a job of its own is `__main__`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import DataFrame


def transactional(servers: str, sink: str) -> Callable[[DataFrame, int], None]:
    """Return what writes a batch to a topic, with a transaction for each task."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        producer = _producer(servers, f"{sink}-{os.getpid()}")
        producer.begin_transaction()
        for batch in batches:
            for key, value in zip(*(batch.column(name).to_pylist() for name in ("key", "value")), strict=True):
                while True:
                    try:
                        producer.produce(sink, value, key)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
        producer.commit_transaction()
        yield pa.RecordBatch.from_pydict({"done": [1]})

    def written(batch: DataFrame, _: int) -> None:
        batch.mapInArrow(write, "done BIGINT").collect()

    return written


@cache
def _producer(servers: str, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": name,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
            "batch.size": 1_000_000,
            "linger.ms": 5,
        }
    )
    producer.init_transactions()
    return producer
