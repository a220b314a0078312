"""PRINT: the records of a topic, read by the formats of a source over it."""

from __future__ import annotations

from engine.admin.answer import Answer, table
from engine.admin.view import View
from engine.catalog.catalog import Source
from engine.errors import SerdeError, StatementError
from engine.formats.base import Side
from engine.formats.json_form import to_json_form
from engine.formats.windowed import split
from engine.inserts import source_spec
from engine.sql.admin import PrintTopic
from engine.topics.records import Record
from engine.types.sql_types import BIGINT, INTEGER


def print_topic(statement: PrintTopic, view: View) -> Answer:
    """Answer PRINT with what the topic holds now; INTERVAL n takes every n-th record.

    Raises:
        StatementError: there is no such topic.
    """
    if statement.topic not in view.broker.topics:
        raise StatementError(
            f"Could not find topic '{statement.topic}', or the KSQL user does not have permissions to list the topic.",
            span=statement.span,
            hint="SHOW TOPICS lists them; names of topics are case-sensitive",
        )
    source = next(iter(view.session.sources_of_topic(statement.topic)), None)
    records = view.broker.records(statement.topic)[:: max(1, statement.interval or 1)]
    shown = records if statement.limit is None else records[: statement.limit]
    rows = ((r.timestamp, r.partition, r.offset, _text(r, Side.KEY, source, view), _text(r, Side.VALUE, source, view)) for r in shown)
    return table((("Rowtime", BIGINT), ("Partition", INTEGER), ("Offset", BIGINT), "Key", "Value"), rows)


def _text(record: Record, side: Side, source: Source | None, view: View) -> str:
    data = record.key if side is Side.KEY else record.value
    if data is None:
        return "<null>"
    if source is None:
        return data.decode("utf-8", "backslashreplace")
    window = ""
    try:
        if side is Side.KEY and source.window is not None:
            data, bounds = split(data, source.window)
            window = f"@{bounds[0]}/{bounds[1]}"
        return f"{to_json_form(view.session.serde()(source_spec(source, side)), data)}{window}"
    except SerdeError:
        return data.hex()
