"""Computes the state of a query anew, from the records that its topics still have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import chain, islice

from confluent_kafka import TopicPartition

from kestrel_sql.dataflow.graph import Graph
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import broker_errors, open_reader, until_ends
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.takeover.take_over import Taken
from kestrel_sql.process.query import ProcessQuery
from kestrel_sql.topics.records import Record

_CHUNK = 5_000


def computed(
    config: KafkaConfig, graph: Graph, tasks: int, first: Mapping[Position, int], behind: Mapping[Position, int]
) -> tuple[Taken, int]:
    """Return the state of a query after the records from the offsets `first` to those of `behind`, and their number.

    What they give is left out. A state is held in memory, the records are not.

    Raises:
        QueryError: a record ends the query.
        EngineError: the broker does not answer.
    """
    process, count = ProcessQuery(graph, tasks), 0
    parts = [_records(config, position, first.get(position, 0), end) for position, end in behind.items()]
    records = merge(*parts, key=lambda record: record.timestamp)
    while chunk := [*islice(records, _CHUNK)]:
        output = Output()
        process.process(chunk, output)
        if process.ended:
            raise QueryError(f"its state cannot be computed anew: {output.log[-1].text}")
        count += len(chunk)
    return Taken(states=process.checkpoint(), records=(), drained={}, keys={}), count


def _records(config: KafkaConfig, position: Position, first: int, end: int) -> Iterator[Record]:
    """The committed records of a partition between two offsets."""
    if first >= end:
        return
    with broker_errors(config), open_reader(config) as consumer:
        consumer.assign([TopicPartition(*position, first)])
        for record in chain.from_iterable(until_ends(consumer, {position: end})):
            if record.offset >= end:
                return
            yield record
