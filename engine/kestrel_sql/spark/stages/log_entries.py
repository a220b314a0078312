"""Entries of the processing log (rules E8): their kinds, and what they look like in the rows of a pipeline."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from kestrel_sql.formats.serde import causes, describe
from kestrel_sql.topics.records import LogEntry

DESERIALIZATION, PROCESSING, PRODUCTION, SERIALIZATION, FATAL = range(5)
"""The last one stops the query."""

ROWS_INCLUDE = "ksql.logging.processing.rows.include"
"""The setting under which entries hold what they are about."""


def failed(kind: int, logger: str, message: str, error: Exception, record: str | None = None) -> dict[str, Any]:
    """An entry about an error, whose own text is in `message`; among the causes it counts for errors of a query only."""
    own = [] if kind == DESERIALIZATION else [describe(error)]
    return {"kind": kind, "logger": logger, "message": message, "cause": [*own, *causes(error)], "record": record}


def base64_of(data: bytes | None) -> str | None:
    """Bytes as an entry holds them."""
    return None if data is None else b64encode(data).decode()


def json_row(values: Iterable[Any]) -> str:
    """A row as an entry holds it: a JSON array."""
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"), default=_json_value)


def log_entry(row: Mapping[str, Any]) -> LogEntry:
    """The entry that a row of `WIRE_OUTPUT` is."""
    return LogEntry(
        kind=row["kind"],
        logger=row["logger"],
        message=row["message"],
        topic=row["src_topic"],
        partition=row["src_part"],
        offset=row["src_off"],
        cause=tuple(row["cause"] or ()),
        record=row["record"],
    )


def _json_value(value: object) -> str | None:
    return base64_of(value) if isinstance(value, bytes) else str(value)
