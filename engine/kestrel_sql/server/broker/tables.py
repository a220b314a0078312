"""Tables that pull queries ask: each is a copy of the table's topic in memory, one batch of its query at a time."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from operator import itemgetter
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import PlanError, QueryError, SerdeError
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.formats.table import decoder, encoder
from kestrel_sql.formats.windowed_key import split, window_bytes
from kestrel_sql.functions.registry import Registry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import READER
from kestrel_sql.kafka.client.offsets import BrokerOffsets, from_members, to_members
from kestrel_sql.kafka.client.positions import Offsets
from kestrel_sql.plan.codec.json_text import read_json, write_json
from kestrel_sql.queries.pull_lookup import Keys
from kestrel_sql.queries.pull_state import TableRow, scan_order
from kestrel_sql.session.source_records import source_spec
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, write_whole
from kestrel_sql.topics.records import LogEntry

_log = logging.getLogger(__name__)

_CHUNK, _LOOK_S = 1_000, 0.05
_LOADING_S = 30.0
_END_OF_PARTITION = -191
_ENDS = "table.json"
"""The file beside Spark's checkpoint of a query with the ends of its last batch in the topic of its table."""

_Headers = tuple[tuple[str, bytes | None], ...]
_Change = tuple[int, bytes, bytes | None, int, _Headers]
"""Offset, key, value, time (ms) and headers of a record; headers only where a column has them."""


def save_ends(folder: CheckpointPath, ends: Offsets) -> None:
    """Write down where a batch of the query with this checkpoint ends in the topic of its table."""
    write_whole(folder / _ENDS, write_json(to_members(ends)))


def saved_ends(folder: CheckpointPath) -> Offsets | None:
    """Read what `save_ends` wrote last; None if no batch has ended, or the file is damaged."""
    try:
        return from_members(read_json((folder / _ENDS).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, PlanError, AttributeError, ValueError):
        return None


def _window_start(key: bytes) -> int:
    """The start (ms) of a window, which is at the end of a key, also behind the end of a session."""
    return int.from_bytes(key[-8:], "big")


class Rows(msgspec.Struct):
    """The rows of a table by the bytes of their key; those of a windowed table also by their key without its window."""

    suffix: int
    """How many bytes at the end of a key are its window."""
    by_key: dict[bytes, tuple[bytes, int]] = {}
    by_bare_key: dict[bytes, dict[bytes, None]] = {}
    headers: dict[bytes, _Headers] = {}
    retention_ms: int | None = None
    """How much earlier than the newest window of its partition a window starts at most; None for any time."""
    starts: dict[int, dict[int, set[bytes]]] = {}
    """The keys by the start (ms) of their window, for each partition of a table with a retention."""

    def write(self, changes: Iterable[_Change], partition: int = 0) -> None:
        """Write rows of a partition, or delete those without a value; windows whose retention is over go, too."""
        by_key, has_windows = self.by_key, bool(self.suffix)
        for _, key, value, time, headers in changes:
            if value is None:
                by_key.pop(key, None)
                self.headers.pop(key, None)
            else:
                by_key[key] = value, time
                if headers:
                    self.headers[key] = headers
            if has_windows:
                self._note_window(key, is_there=value is not None)
            if self.retention_ms is not None and value is not None:
                self.starts.setdefault(partition, {}).setdefault(_window_start(key), set()).add(key)
        if self.retention_ms is not None:
            self._expire(self.starts.get(partition, {}), self.retention_ms)

    def _expire(self, starts: dict[int, set[bytes]], retention_ms: int) -> None:
        """Delete the windows that a pull query does not see any more (rule O9.4)."""
        first = max(starts, default=0) - retention_ms
        for start in [start for start in starts if start < first]:
            for key in starts.pop(start):
                if self.by_key.pop(key, None) is not None:
                    self._note_window(key, is_there=False)

    def _note_window(self, key: bytes, *, is_there: bool) -> None:
        bare = key[: -self.suffix]
        if is_there:
            self.by_bare_key.setdefault(bare, {})[key] = None
        elif bare in self.by_bare_key:
            self.by_bare_key[bare].pop(key, None)

    def find(self, bare: bytes) -> list[tuple[bytes, bytes, int]]:
        """The rows of a key, of all its windows."""
        if self.suffix:
            return [(key, *self.by_key[key]) for key in self.by_bare_key.get(bare, ())]
        entry = self.by_key.get(bare)
        return [] if entry is None else [(bare, *entry)]


class TableTopic:
    """Follows a table's topic in a thread.

    The rows of a query's table change where a batch ends: `commit` says how far the topic reaches then. A table that no
    query writes changes as its records come.
    """

    def __init__(
        self,
        config: KafkaConfig,
        source: Source,
        partitions: int,
        *,
        is_written_by_query: bool,
        retention_ms: int | None = None,
    ) -> None:
        """Begin to read; the table can be asked after the first `commit`, or when its topic has been read once.

        `retention_ms` is how long its windows stay visible, None for ever.
        """
        self.source = source
        self.partitions = partitions
        self.rows = Rows(window_bytes(source.window), retention_ms=retention_ms)
        self.lock = threading.Lock()
        self.ready = threading.Event()
        self._config = config
        self._by_batch = is_written_by_query
        self._seen: dict[int, int] = {}
        """The offset up to which each partition was read."""
        self._changes: list[list[_Change]] = [[] for _ in range(partitions)]
        """What was read of each partition and is not written yet, in its order."""
        self._ends: deque[Offsets] = deque()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kestrel-table-{source.name}", daemon=True)
        self._thread.start()

    def commit(self, ends: Offsets) -> None:
        """A batch ends at these offsets of the topic."""
        self._ends.append(ends)

    @property
    def is_current(self) -> bool:
        """Whether it has the rows of every batch that has ended; of a table that no query writes, all rows."""
        if self._by_batch:
            return not self._ends
        ends = BrokerOffsets(self._config).written([(self.source.topic, number) for number in range(self.partitions)])
        return all(self._seen.get(number, 0) >= end for (_, number), end in ends.items())

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join(5)

    def wait(self) -> None:
        """Wait until the table has been read once.

        Raises:
            QueryError: that takes long.
        """
        if not self.ready.wait(_LOADING_S):
            raise QueryError(f"the table {self.source.name} is still being loaded", hint="try again in a moment")

    def _run(self) -> None:
        places = [TopicPartition(self.source.topic, number, OFFSET_BEGINNING) for number in range(self.partitions)]
        try:
            with closing(Consumer({**self._config.client(), **READER})) as consumer:
                consumer.assign(places)
                while not self._closed.is_set():
                    self._take(consumer.consume(_CHUNK, _LOOK_S))
                    self._apply()
        except Exception:  # noqa: BLE001 - pull queries are told
            _log.exception("the table %s is not followed any more", self.source.name)
            self.ready.clear()

    def _take(self, messages: list[Any]) -> None:
        seen, changes = self._seen, self._changes
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                seen[partition] = offset + 1
                key = message.key()
                if key is not None:
                    headers = tuple(message.headers() or ()) if self.source.schema.headers else ()
                    changes[partition].append((offset, key, message.value(), message.timestamp()[1], headers))
            elif error.code() == _END_OF_PARTITION:
                seen[partition] = offset

    def _apply(self) -> None:
        if not self._by_batch:
            self._write(None)
            if len(self._seen) == self.partitions:
                self.ready.set()
            return
        while self._ends and all(self._seen.get(number, 0) >= end for (_, number), end in self._ends[0].items()):
            self._write(self._ends.popleft())
            self.ready.set()

    def _write(self, ends: Offsets | None) -> None:
        """Write the changes up to the ends of a batch, or all, at once for who asks."""
        with self.lock:
            for number, changes in enumerate(self._changes):
                count = len(changes)
                if ends is not None:
                    count = bisect_left(changes, ends[self.source.topic, number], key=itemgetter(0))
                self.rows.write(changes[:count], number)
                self._changes[number] = changes[count:]


class TopicTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table as one pull query reads it (`PulledTable`)."""

    topic: TableTopic
    functions: Registry
    settings: Mapping[str, str]
    serde: Callable[[SerdeSpec], SerdeSpec]

    @property
    def source(self) -> Source:
        """The table."""
        return self.topic.source

    def rows(self, keys: Keys | None, log: list[LogEntry]) -> Iterator[TableRow]:
        """Give the rows of the keys, or all; in no order."""
        source = self.source
        key_of = decoder(self.serde(source_spec(source, Side.KEY)))
        value_of = decoder(self.serde(source_spec(source, Side.VALUE)))
        names = [column.name for column in source.schema.value]
        for key, value, time in self._found(keys):
            bare, window = (key, None) if source.window is None else split(key, source.window)
            try:
                row = value_of(value)
                values = dict(zip(names, row or (), strict=True)) | self._headers(key)
                yield TableRow(key_of(bare) or (), values, time, window)
            except SerdeError as error:
                raise QueryError(f"a row of the table {source.name} cannot be read: {error}") from error

    def _headers(self, key: bytes) -> dict[str, object]:
        """The columns of a row that are headers; the last of equal names wins."""
        found = self.topic.rows.headers.get(key, ())
        all_of = [{"KEY": name, "VALUE": value} for name, value in found]
        return {
            column.name: all_of if column.header_key is None else dict(found).get(column.header_key)
            for column in self.source.schema.headers
        }

    def scan_order(self, row: TableRow) -> tuple[int, bytes]:
        """Return the position of a row in a scan by ksqlDB."""
        return scan_order(self.source, self.serde, self.topic.partitions, row)

    def _found(self, keys: Keys | None) -> list[tuple[bytes, bytes, int]]:
        self.topic.wait()
        write = encoder(self.serde(source_spec(self.source, Side.KEY)))
        rows = self.topic.rows
        wanted = None if keys is None else [write(key) or b"" for key in dict.fromkeys(keys)]
        if wanted is not None and len(wanted) == 1 and not rows.suffix:
            # One row is of one batch; the lock is held while a batch is written, and would hold up the event loop.
            return rows.find(wanted[0])
        with self.topic.lock:
            if wanted is None:
                return [(key, *entry) for key, entry in rows.by_key.items()]
            return [row for key in wanted for row in rows.find(key)]
