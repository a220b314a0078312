"""Reads state from a Spark checkpoint: single pages from its RocksDB, or all pages through Spark's state data source.

A batch job takes 250 ms before its first row. A page is therefore read from the store itself, which is opened once and
loads the last version with an archive (docs/adr/0018). Pages that changed since are read from changelogs: Spark would
begin with the archive for each batch (docs/adr/0041). Decoded pages are cached until there is a newer version.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import unpack_from
from tempfile import mkstemp
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.spark.state.changelog import Changelog, archived_version, read_changelog
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, hadoop_uri
from kestrel_sql.spark.state.hashing import hash_ints
from kestrel_sql.spark.state.level import PLAN
from kestrel_sql.spark.state.stored_rows import key_of, stored_page

_KEY = "task INT, page INT"
_VALUE = "blob BINARY"
_VARIABLE = "page"
"""The key, value and only state variable of the host (`kestrel_sql.spark.state.host`)."""

_MAX_CACHED_BYTES = 64 << 20
"""The most bytes of blobs whose pages stay decoded; a decoded page takes several times as much."""

_MEMORY = "/dev/shm"

_FEW_PAGES = 8
"""Up to this many pages are read one by one when all pages of a level are wanted."""

PageId = tuple[int, int, int]
"""Level, task and page number."""


@dataclass(slots=True)
class CheckpointReader:
    """Reads the state of one query as of the last committed batch.

    `path` is the folder of the checkpoint; `levels`, `tasks` and `pages` are the numbers of its pipeline.
    """

    spark: SparkSession
    path: str
    levels: int
    tasks: int
    pages: int
    _stores: dict[tuple[int, int], _Store] = field(default_factory=dict)
    _cached: OrderedDict[PageId, tuple[State, int]] = field(default_factory=OrderedDict)
    _size: int = 0
    _version: int = 0
    _partitions: int = 0

    def version(self) -> int:
        """Return the number of committed batches."""
        version = committed(Path(self.path))
        if version != self._version:
            self._forget()
            self._version = version
        return version

    def page_ids(self, level: int) -> list[PageId]:
        """Return the ids of all pages of a level."""
        return [(level, task, page) for task in range(self.tasks) for page in range(self.pages)]

    def state(self, page_id: PageId) -> State | None:
        """Return the state of the operators of a page, by relation; None if the page never had a row."""
        if self.version() == 0:
            return None
        if page_id in self._cached:
            self._cached.move_to_end(page_id)
            return self._cached[page_id][0]
        try:
            blob = self._store(page_id).get(self._version, page_id)
        except Py4JError:
            # Spark drops the generated classes of a store once a hundred others are younger.
            self._close_stores()
            blob = self._store(page_id).get(self._version, page_id)
        return None if blob is None else self._cache(page_id, blob)

    def states(self, level: int) -> Iterator[State]:
        """Return the state of every page of a level that has one."""
        page_ids = self.page_ids(level)
        if self.version() and len(page_ids) > _FEW_PAGES and not all(page_id in self._cached for page_id in page_ids):
            yield from map(_states, self._all_blobs(level))
            return
        for page_id in page_ids:
            state = self.state(page_id)
            if state is not None:
                yield state

    def close(self) -> None:
        """Close the stores and drop the cache."""
        self._close_stores()
        self._forget()

    def _close_stores(self) -> None:
        for store in self._stores.values():
            store.close()
        self._stores.clear()

    def _forget(self) -> None:
        self._cached.clear()
        self._size = 0

    def _cache(self, page_id: PageId, blob: bytes) -> State:
        state = _states(blob)
        self._cached[page_id] = (state, len(blob))
        self._size += len(blob)
        while self._size > _MAX_CACHED_BYTES and len(self._cached) > 1:
            _, (_, size) = self._cached.popitem(last=False)
            self._size -= size
        return state

    def _all_blobs(self, level: int) -> list[bytes]:
        stored = stored_pages(self.spark, Path(self.path), levels=self.levels, level=level)
        blobs: list[bytes] = stored.select("blob").toArrow().column(0).to_pylist()
        return blobs

    def _store(self, page_id: PageId) -> _Store:
        level, task, page = page_id
        operator = _operator(self.levels, level)
        if not self._partitions:
            self._partitions = sum(entry.name.isdigit() for entry in Path(self.path, "state", str(operator)).iterdir())
        partition = hash_ints(task, page) % self._partitions
        if (operator, partition) not in self._stores:
            self._stores[operator, partition] = _Store(self.spark, self.path, operator, partition)
        return self._stores[operator, partition]


def committed(checkpoint: CheckpointPath) -> int:
    """Return the number of committed batches."""
    commits = checkpoint / "commits"
    names = [file.name for file in commits.iterdir()] if commits.is_dir() else []
    return 1 + max((int(name) for name in names if name.isdigit()), default=-1)


def stored_pages(spark: SparkSession, checkpoint: CheckpointPath, *, levels: int, level: int) -> DataFrame:
    """Return all pages of a level as of the last committed batch, as rows `task INT, page INT, blob BINARY`."""
    reader = (
        spark.read.format("statestore").option("path", str(checkpoint)).option("batchId", committed(checkpoint) - 1)
    )
    reader = reader.option("operatorId", _operator(levels, level)).option("stateVarName", _VARIABLE)
    return reader.load().select("key.task", "key.page", "value.blob")


def _operator(levels: int, level: int) -> int:
    """The number of a level's operator in Spark, which counts from the end of the query."""
    return levels - level


def _states(blob: bytes) -> State:
    """Decode the state of the operators of a page, without the fingerprint of their plan."""
    states = load_state(blob)
    states.pop(PLAN, None)
    return states


class _Store:
    """One partition of an operator's state store.

    It uses local folders of its own, so that the query may run at the same time.
    """

    def __init__(self, spark: SparkSession, path: str, operator: int, partition: int) -> None:
        self._folder = Path(path, "state", str(operator), str(partition))
        self._version = self._archived = 0
        self._changed: dict[tuple[int, int], tuple[int, Changelog, bytes]] = {}
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        gateway: Any = spark.sparkContext._gateway
        self._objects = gateway.new_array(jvm.java.lang.Object, 2)
        self._row = jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow
        self._none = jvm.scala.Option.empty()
        self._stream, self._buffer = jvm.java.io.FileOutputStream, gateway.new_array(jvm.byte, 1 << 16)
        handle, name = mkstemp(prefix="kestrel-page-", dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        os.close(handle)
        self._file = Path(name)
        states = jvm.org.apache.spark.sql.execution.streaming.state
        self._key, self._value = (
            jvm.org.apache.spark.sql.types.StructType.fromDDL(columns) for columns in (_KEY, _VALUE)
        )
        self._projection = jvm.org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(self._key)
        self._encoding = states.NoPrefixKeyStateEncoderSpec(self._key)
        hadoop = session.sessionState().newHadoopConf()
        hadoop.set("sql.streaming.runId", str(uuid4()))
        conf = states.StateStoreConf(session.sessionState().conf(), states.StateStoreConf.empty().extraOptions())
        self._provider = states.RocksDBStateStoreProvider()
        store = states.StateStoreId(f"{hadoop_uri(Path(path))}/state", operator, partition, "default")
        self._provider.init(store, self._key, self._value, self._encoding, True, conf, hadoop, False, self._none)

    def get(self, version: int, page_id: PageId) -> bytes | None:
        """Return the blob of a page as of a version; None if there is none.

        Raises:
            CheckpointError: a changelog is missing or damaged; names it.
        """
        if version != self._version:
            self._advance(version)
        if page_id[1:] not in self._changed:
            return self._archived_blob(page_id)
        _, changelog, key = self._changed[page_id[1:]]
        value = changelog.value(key)
        return None if value is None else stored_page(changelog.file, key, value).blob

    def _advance(self, version: int) -> None:
        """Find the last archive up to a later version, and the pages that changed since."""
        archived = archived_version(self._folder, version)
        for number in range(max(self._version, archived) + 1, version + 1):
            changelog = read_changelog(self._folder, number)
            for key in changelog.places:
                _, task, page = key_of(changelog.file, key)
                self._changed[task, page] = (number, changelog, key)
        self._changed = {page: change for page, change in self._changed.items() if change[0] > archived}
        self._archived, self._version = archived, version

    def _archived_blob(self, page_id: PageId) -> bytes | None:
        store = self._provider.getReadStore(self._archived, self._none)
        try:
            store.registerColFamily(_VARIABLE, self._key, self._value, self._encoding, False, False)
            self._objects[0], self._objects[1] = page_id[1:]
            found = store.get(self._projection.apply(self._row(self._objects)), _VARIABLE)
            return None if found is None else self._blob(found)
        finally:
            store.release()

    def close(self) -> None:
        """Close the store and remove its local folders."""
        self._provider.close()
        self._file.unlink(missing_ok=True)

    def _blob(self, row: Any) -> bytes:
        """The only column of a row.

        It is passed in a file, because py4j encodes bytes as text and stalls for 40 ms in a large one.
        """
        stream = self._stream(str(self._file))
        row.writeToStream(stream, self._buffer)
        stream.close()
        data = self._file.read_bytes()
        # A row starts with 8 bytes of NULL flags, then the size and offset of the column in 4 bytes each.
        size, offset = unpack_from("<ii", data, 8)
        return data[offset : offset + size]
