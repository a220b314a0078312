"""Rows of `/inserts-stream` as records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import orjson

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import EngineError
from kestrel_sql.formats.json.text import read_exact
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import encoder
from kestrel_sql.server.errors import BAD_REQUEST, SERVER_ERROR, ApiError
from kestrel_sql.server.json_values import read_value
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column


class RowInserter:
    """Writes JSON objects as records of one source (`Inserter`)."""

    def __init__(
        self,
        source: Source,
        serde: Callable[[SerdeSpec], SerdeSpec],
        now: Callable[[], int],
        produce: Callable[[Record], Future[None] | None],
    ) -> None:
        """Prepare the formats of `source`; `now` gives the time of records in ms."""
        records = SourceRecords.of(source, serde)
        self._source = source
        self._key, self._value = encoder(records.key), encoder(records.value)
        self._read = read_exact if any(map(_is_exact, source.schema.columns)) else orjson.loads
        self._now = now
        self._produce = produce

    def insert(self, line: bytes) -> Awaitable[None] | None:
        """Write the row that a line of JSON is; it is durable when the result has come.

        Raises:
            ApiError: it is no object, a key column is missing, or a value does not fit its column.
        """
        try:
            row = self._read(line)
        except ValueError:
            raise ApiError(BAD_REQUEST, "Invalid JSON in inserts stream: a row is a JSON object") from None
        if not isinstance(row, dict):
            raise ApiError(BAD_REQUEST, "Invalid JSON in inserts stream: a row is a JSON object")
        try:
            written = self._produce(self._record(_by_column_name(row)))
        except EngineError as error:
            raise ApiError(BAD_REQUEST, error.render()) from error
        return None if written is None else _durable(written)

    def _record(self, row: dict[str, Any]) -> Record:
        schema = self._source.schema
        for column in schema.key:
            if column.name not in row:
                raise ApiError(BAD_REQUEST, f"Key field must be specified: {column.name}")
        key = tuple(read_value(row[column.name], column) for column in schema.key)
        value = tuple(read_value(row.get(column.name), column) for column in schema.value)
        return Record(
            topic=self._source.topic,
            key=self._key(key) if any(part is not None for part in key) else None,
            value=self._value(value),
            timestamp=self._now(),
        )


async def _durable(written: Future[None]) -> None:
    try:
        await asyncio.wrap_future(written)
    except EngineError as error:
        raise ApiError(SERVER_ERROR, error.render()) from error


def _by_column_name(row: dict[str, Any]) -> dict[str, Any]:
    """The members of a row by the name of their column: in capitals unless quoted."""
    named = {column_name(member): value for member, value in row.items()}
    if len(named) < len(row):
        raise ApiError(BAD_REQUEST, "Found duplicate column names in a row; names are case-insensitive unless quoted")
    return named


def column_name(text: str) -> str:
    """The name of a column or source that a client wrote: quoted, or in any case."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in '`"':
        return text[1:-1].replace(text[0] * 2, text[0])
    return text.upper()


def _is_exact(column: Column) -> bool:
    """Whether numbers of a column must be read with all their digits."""
    return "DECIMAL" in str(column.type)
