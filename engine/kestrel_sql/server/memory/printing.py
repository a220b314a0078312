"""PRINT: the records of a topic in memory as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from kestrel_sql.admin.print_topic import format_lines, print_line, printed_source
from kestrel_sql.admin.view import EngineView
from kestrel_sql.sql.nodes.admin import PrintTopic

_LOOK_S = 0.1


async def printed_lines(statement: PrintTopic, view: EngineView) -> AsyncIterator[Sequence[str]]:
    """Give the lines of the topic's records: from now or FROM BEGINNING, every n-th with INTERVAL n, up to LIMIT."""
    source = printed_source(statement, view)
    position = 0 if statement.from_beginning else view.broker.count(statement.topic) or 0
    yield format_lines(source)
    left, interval = statement.limit, max(1, statement.interval or 1)
    while left is None or left > 0:
        found = view.broker.records(statement.topic)[position:]
        position += len(found)
        shown = [record for record in found if record.offset % interval == 0][: left if left is not None else None]
        if shown:
            left = None if left is None else left - len(shown)
            yield [print_line(record, source, view) for record in shown]
        else:
            await asyncio.sleep(_LOOK_S)
