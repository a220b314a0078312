"""Answers PRINT with a line for each record of a topic, read in the formats of a source over the topic."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from kestrel_sql.admin.answer import Answer, moment
from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import SerdeError, TargetError
from kestrel_sql.formats.json.text import write_compact
from kestrel_sql.formats.serde import Side
from kestrel_sql.java.utf16 import encodable
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, DOUBLE, INTEGER, SqlType

_STRING = "KAFKA_STRING"
_NUMBERS: Mapping[SqlType, Sequence[str]] = {
    INTEGER: ("KAFKA_INT",),
    BIGINT: ("KAFKA_BIGINT", "KAFKA_DOUBLE"),
    DOUBLE: ("KAFKA_BIGINT", "KAFKA_DOUBLE"),
}
"""The formats of numbers that have as many bytes."""


def print_topic(statement: PrintTopic, view: EngineView) -> Answer:
    """Answer PRINT with the records that the topic holds now; INTERVAL n takes every n-th record.

    Raises:
        StatementError: the topic does not exist.
    """
    source = printed_source(statement, view)
    records = view.broker.records(statement.topic)[:: max(1, statement.interval or 1)][: statement.limit]
    return Answer(lines=(*format_lines(source), *(print_line(record, source, view) for record in records)))


def printed_source(statement: PrintTopic, view: EngineView) -> Source | None:
    """Return the stream or table whose formats PRINT reads the topic in; None if no source has the topic.

    Raises:
        TargetError: the topic does not exist.
    """
    if statement.topic not in view.broker.topics:
        raise TargetError(
            f"Could not find topic '{statement.topic}', or the KSQL user does not have permissions to list the topic.",
            span=statement.span,
            hint="SHOW TOPICS lists the topics; their names are case-sensitive",
        )
    return next(iter(view.session.sources_of_topic(statement.topic)), None)


def format_lines(source: Source | None) -> Sequence[str]:
    """What comes before the records: the formats that ksqlDB would take their keys and values for."""
    if source is None:
        return [f"Key format: {_STRING}", f"Value format: {_STRING}"]
    formats, schema = source.message_formats, source.schema
    keys = _guesses(formats.key_format.format, schema.key)
    if source.window is not None:
        kinds = ("SESSION",) if source.window.type.value == "SESSION" else ("HOPPING", "TUMBLING")
        keys = [f"{kind}({key})" for key in keys for kind in kinds]
    values = _guesses(formats.value_format.format, schema.value)
    return [f"Key format: {' or '.join(keys)}", f"Value format: {' or '.join(values)}"]


def _guesses(form: str, columns: Sequence[Column]) -> list[str]:
    """The formats whose bytes may be those of a format."""
    match form:
        case "JSON":
            return ["JSON", _STRING]
        case "KAFKA" if columns:
            return [*_NUMBERS.get(columns[0].type, []), _STRING]
        case "KAFKA" | "DELIMITED" | "NONE" | "TEXT":
            return [_STRING]
        case other:
            return [other]


def print_line(record: Record, source: Source | None, view: EngineView) -> str:
    """One record."""
    key, value = _text(record, Side.KEY, source, view), _text(record, Side.VALUE, source, view)
    stamp = f"{moment(record.timestamp).replace('-', '/')} Z"
    return f"rowtime: {stamp}, key: {key}, value: {value}, partition: {record.partition}"


def _text(record: Record, side: Side, source: Source | None, view: EngineView) -> str:
    data = record.key if side is Side.KEY else record.value
    if data is None:
        return "<null>"
    if source is None:
        return data.decode("utf-8", "backslashreplace")
    records = SourceRecords.of(source, view.session.serde())
    try:
        if side is Side.VALUE:
            return _shown(records.value_to_json(data))
        key, window = records.key_to_json(data)
    except SerdeError:
        return data.hex()
    return _shown(key) if window is None else f"{_shown(key)}@{window[0]}/{window[1]}"


def _shown(value: object) -> str:
    """Write a string without quotes, any other value as JSON with bytes in base64."""
    plain = _plain(value)
    return encodable(plain) if isinstance(plain, str) else write_compact(plain)


def _plain(value: object) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value
