"""PRINT: the records of a broker's topic as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from kestrel_sql.admin.print_topic import format_lines, print_line, printed_source
from kestrel_sql.admin.view import EngineView
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import READER, partition_counts, to_record
from kestrel_sql.sql.nodes.admin import PrintTopic

_CHUNK, _LOOK_S = 1_000, 0.2


async def printed_lines(statement: PrintTopic, view: EngineView, config: KafkaConfig) -> AsyncIterator[Sequence[str]]:
    """Give the lines of the topic's records: from now or FROM BEGINNING, every n-th with INTERVAL n, up to LIMIT."""
    source = printed_source(statement, view)
    start = OFFSET_BEGINNING if statement.from_beginning else OFFSET_END
    count = await asyncio.to_thread(lambda: partition_counts(config, [statement.topic]).get(statement.topic, 0))
    consumer = Consumer({**config.client(), **READER})
    try:
        consumer.assign([TopicPartition(statement.topic, number, start) for number in range(count)])
        yield format_lines(source)
        left, interval, seen = statement.limit, max(1, statement.interval or 1), 0
        while left is None or left > 0:
            messages = await asyncio.to_thread(consumer.consume, _CHUNK, _LOOK_S)
            records = [to_record(message) for message in messages if message.error() is None]
            shown = records[-seen % interval :: interval][: left if left is not None else None]
            seen += len(records)
            if shown:
                left = None if left is None else left - len(shown)
                yield [print_line(record, source, view) for record in shown]
    finally:
        await asyncio.to_thread(consumer.close)
