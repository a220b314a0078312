"""PRINT: the records of a topic in memory as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from kestrel_sql.admin.print_topic import printed_key_and_value, printed_source
from kestrel_sql.admin.view import EngineView
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.topics.records import Record

_LOOK_S = 0.1


async def printed_lines(statement: PrintTopic, view: EngineView) -> AsyncIterator[Sequence[str]]:
    """Give the lines of the topic's records: from now or FROM BEGINNING, every n-th with INTERVAL n, up to LIMIT."""
    source = printed_source(statement, view)
    position = 0 if statement.from_beginning else view.broker.count(statement.topic) or 0
    if source is not None:
        formats = source.message_formats
        yield [f"Key format: {formats.key_format.format}", f"Value format: {formats.value_format.format}"]
    else:
        yield ["Key format: ¯\\_(ツ)_/¯ - no source is declared over the topic", "Value format: STRING"]
    left, interval = statement.limit, max(1, statement.interval or 1)
    while left is None or left > 0:
        found = view.broker.records(statement.topic)[position:]
        position += len(found)
        shown = [record for record in found if record.offset % interval == 0][: left if left is not None else None]
        if shown:
            left = None if left is None else left - len(shown)
            yield [_line(record, *printed_key_and_value(record, source, view)) for record in shown]
        else:
            await asyncio.sleep(_LOOK_S)


def _line(record: Record, key: str, value: str) -> str:
    time = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    stamp = f"{time:%Y/%m/%d %H:%M:%S}.{record.timestamp % 1000:03d} Z"
    return f"rowtime: {stamp}, key: {key}, value: {value}, partition: {record.partition}"
