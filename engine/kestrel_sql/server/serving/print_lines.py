"""The lines of PRINT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kestrel_sql.admin.print_topic import printed_key_and_value
from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, DOUBLE, INTEGER, SqlType

_TEXT = "KAFKA_STRING"
_NUMBERS: Mapping[SqlType, Sequence[str]] = {
    INTEGER: ("KAFKA_INT",),
    BIGINT: ("KAFKA_BIGINT", "KAFKA_DOUBLE"),
    DOUBLE: ("KAFKA_BIGINT", "KAFKA_DOUBLE"),
}
"""The formats of numbers that have as many bytes."""


def format_lines(source: Source | None) -> Sequence[str]:
    """What comes before the records: the formats that ksqlDB would take their keys and values for."""
    if source is None:
        return [f"Key format: {_TEXT}", f"Value format: {_TEXT}"]
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
            return ["JSON", _TEXT]
        case "KAFKA" if columns:
            return [*_NUMBERS.get(columns[0].type, []), _TEXT]
        case "KAFKA" | "DELIMITED" | "NONE" | "TEXT":
            return [_TEXT]
        case other:
            return [other]


def print_line(record: Record, source: Source | None, view: EngineView) -> str:
    """One record."""
    key, value = printed_key_and_value(record, source, view)
    time = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    stamp = f"{time:%Y/%m/%d %H:%M:%S}.{record.timestamp % 1000:03d} Z"
    return f"rowtime: {stamp}, key: {key}, value: {value}, partition: {record.partition}"
