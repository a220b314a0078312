"""Rows of `/inserts-stream` as records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

import orjson

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import EngineError
from kestrel_sql.formats.json.read import has_decimal
from kestrel_sql.formats.json.text import read_exact
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import encoder
from kestrel_sql.server.errors import BAD_REQUEST, ApiError, api_error
from kestrel_sql.server.json_values import read_value
from kestrel_sql.server.secrets import told
from kestrel_sql.server.service import Handed, Inserted
from kestrel_sql.server.serving.backend import Written
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.records import Record


class RowInserter:
    """Writes JSON objects as records of one source."""

    def __init__(
        self,
        source: Source,
        serde: Callable[[SerdeSpec], SerdeSpec],
        now: Callable[[], int],
        produce: Callable[[Sequence[Record]], Future[Written]],
        threads: Executor,
    ) -> None:
        """Prepare the formats of `source`; `now` gives the time of records in ms, and `threads` encode them."""
        records = SourceRecords.of(source, serde)
        self._source = source
        self._key_columns, self._value_columns = source.schema.key, source.schema.value
        self._key, self._value = encoder(records.key), encoder(records.value)
        self._read = read_exact if any(has_decimal(column.type) for column in source.schema.columns) else orjson.loads
        self._now = now
        self._produce = produce
        self._threads = threads

    async def hand_over(self, lines: Sequence[bytes]) -> Handed:
        """Send the rows that lines of JSON are, up to the first that does not fit."""
        sent, refused = await asyncio.get_running_loop().run_in_executor(self._threads, self._write, lines)
        return Handed(asyncio.create_task(self._inserted(sent, refused)), refused is not None)

    async def _inserted(self, sent: Future[Written], refused: ApiError | None) -> Inserted:
        written = await asyncio.wrap_future(sent)
        if written.error is not None:
            return Inserted(written.count, api_error(written.error, ""))
        return Inserted(written.count, refused)

    def _write(self, lines: Sequence[bytes]) -> tuple[Future[Written], ApiError | None]:
        """Hand over the records of lines up to the first that does not fit, and tell why that one does not."""
        records: list[Record] = []
        refused = None
        try:
            records.extend(self._record(_by_column_name(self._object(line))) for line in lines)
        except ApiError as error:
            refused = error
        except EngineError as error:
            refused = ApiError(BAD_REQUEST, told(error))
        return self._produce(records), refused

    def _object(self, line: bytes) -> dict[str, object]:
        try:
            row = self._read(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ApiError(BAD_REQUEST, "Invalid JSON in inserts stream: a row is a JSON object")
        return row

    def _record(self, row: dict[str, object]) -> Record:
        for column in self._key_columns:
            if column.name not in row:
                raise ApiError(BAD_REQUEST, f"Key field must be specified: {column.name}")
        key = tuple(read_value(row[column.name], column) for column in self._key_columns)
        value = tuple(read_value(row.get(column.name), column) for column in self._value_columns)
        return Record(
            topic=self._source.topic,
            key=self._key(key) if any(part is not None for part in key) else None,
            value=self._value(value),
            timestamp=self._now(),
        )


def _by_column_name(row: dict[str, object]) -> dict[str, object]:
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
