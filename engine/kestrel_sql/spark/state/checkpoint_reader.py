"""Reading the states that Spark checkpointed: one page at a time out of its RocksDB, or all pages by its state data source.

A batch job costs a quarter of a second before its first row, so a page is looked up in the store itself, which is opened once and moved
on to the latest version (docs/adr/0018). Decoded pages are remembered for as long as their version is the latest.
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

from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.spark.state.hashing import hash_ints
from kestrel_sql.spark.state.level import PLAN

_KEY = "task INT, page INT"
_VALUE = "blob BINARY"
_VARIABLE = "page"
"""The host's key and its only state variable (`kestrel_sql.spark.state.host`)."""

_MOST_REMEMBERED = 64 << 20
"""How many bytes of blobs stay decoded; a decoded page takes several times as much."""

_MEMORY = "/dev/shm"

_FEW_PAGES = 8
"""Up to how many pages are looked up one by one when all are wanted."""

Place = tuple[int, int, int]
"""A level, a task and a page."""


@dataclass(slots=True)
class CheckpointReader:
    """Reads the states of one query's checkpoint.

    `levels`, `tasks` and `pages` are those of its pipeline. Answers are of the last batch that was committed.
    """

    spark: SparkSession
    path: str
    levels: int
    tasks: int
    pages: int
    _stores: dict[tuple[int, int], _Store] = field(default_factory=dict)
    _remembered: OrderedDict[Place, tuple[State, int]] = field(default_factory=OrderedDict)
    _size: int = 0
    _version: int = 0
    _partitions: int = 0

    def version(self) -> int:
        """The number of batches that were committed; 0 before the first."""
        version = committed(Path(self.path))
        if version != self._version:
            self._forget()
            self._version = version
        return version

    def places(self, level: int) -> list[Place]:
        """All places of a level."""
        return [(level, task, page) for task in range(self.tasks) for page in range(self.pages)]

    def state(self, place: Place) -> State | None:
        """The states of the operators of a page, by relation; None where it never had a row."""
        if self.version() == 0:
            return None
        if place in self._remembered:
            self._remembered.move_to_end(place)
            return self._remembered[place][0]
        blob = self._store(place).get(self._version, place)
        return None if blob is None else self._remember(place, blob)

    def states(self, level: int) -> Iterator[State]:
        """The states of all pages of a level."""
        places = self.places(level)
        if self.version() and len(places) > _FEW_PAGES and not all(place in self._remembered for place in places):
            yield from map(_states, self._all_blobs(level))
            return
        for place in places:
            state = self.state(place)
            if state is not None:
                yield state

    def close(self) -> None:
        """Give back what the stores hold."""
        for store in self._stores.values():
            store.close()
        self._stores.clear()
        self._forget()

    def _forget(self) -> None:
        self._remembered.clear()
        self._size = 0

    def _remember(self, place: Place, blob: bytes) -> State:
        state = _states(blob)
        self._remembered[place] = (state, len(blob))
        self._size += len(blob)
        while self._size > _MOST_REMEMBERED and len(self._remembered) > 1:
            _, (_, size) = self._remembered.popitem(last=False)
            self._size -= size
        return state

    def _all_blobs(self, level: int) -> list[bytes]:
        stored = stored_pages(self.spark, self.path, levels=self.levels, level=level)
        blobs: list[bytes] = stored.select("blob").toArrow().column(0).to_pylist()
        return blobs

    def _store(self, place: Place) -> _Store:
        level, task, page = place
        operator = _operator(self.levels, level)
        if not self._partitions:
            self._partitions = sum(entry.name.isdigit() for entry in Path(self.path, "state", str(operator)).iterdir())
        partition = hash_ints(task, page) % self._partitions
        if (operator, partition) not in self._stores:
            self._stores[operator, partition] = _Store(self.spark, self.path, operator, partition)
        return self._stores[operator, partition]


def committed(checkpoint: Path) -> int:
    """The number of batches that were committed; 0 before the first."""
    commits = checkpoint / "commits"
    names = [file.name for file in commits.iterdir()] if commits.is_dir() else []
    return 1 + max((int(name) for name in names if name.isdigit()), default=-1)


def stored_pages(spark: SparkSession, checkpoint: str, *, levels: int, level: int) -> DataFrame:
    """All pages of a level as of the last committed batch: `task INT, page INT, blob BINARY`."""
    reader = (
        spark.read.format("statestore").option("path", checkpoint).option("batchId", committed(Path(checkpoint)) - 1)
    )
    reader = reader.option("operatorId", _operator(levels, level)).option("stateVarName", _VARIABLE)
    return reader.load().select("key.task", "key.page", "value.blob")


def _operator(levels: int, level: int) -> int:
    """The number that Spark gives to the operator of a level: it counts from the end of the query."""
    return levels - level


def _states(blob: bytes) -> State:
    """The states of the operators of a page, without the fingerprint of their plan."""
    states = load_state(blob)
    states.pop(PLAN, None)
    return states


class _Store:
    """One partition of an operator's state store, opened beside the query that may be running, in folders of its own."""

    def __init__(self, spark: SparkSession, path: str, operator: int, partition: int) -> None:
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        gateway: Any = spark.sparkContext._gateway
        self._objects = gateway.new_array(jvm.java.lang.Object, 2)
        self._row = jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow
        self._none = jvm.scala.Option.empty()
        self._stream, self._buffer = jvm.java.io.FileOutputStream, gateway.new_array(jvm.byte, 1 << 16)
        handle, name = mkstemp(prefix="kestrel-page-", dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        os.close(handle)
        self._handed = Path(name)
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
        store = states.StateStoreId(f"{Path(path).absolute().as_uri()}/state", operator, partition, "default")
        self._provider.init(store, self._key, self._value, self._encoding, True, conf, hadoop, False, self._none)

    def get(self, version: int, place: Place) -> bytes | None:
        """The blob of a page as of a version."""
        store = self._provider.getReadStore(version, self._none)
        try:
            store.registerColFamily(_VARIABLE, self._key, self._value, self._encoding, False, False)
            self._objects[0], self._objects[1] = place[1:]
            found = store.get(self._projection.apply(self._row(self._objects)), _VARIABLE)
            return None if found is None else self._blob(found)
        finally:
            store.release()

    def close(self) -> None:
        """Close the store and remove its local folders."""
        self._provider.close()
        self._handed.unlink(missing_ok=True)

    def _blob(self, row: Any) -> bytes:
        """The only column of a row, by way of a file: the socket to the JVM takes text, and waits 40 ms in the midst of a large one."""
        stream = self._stream(str(self._handed))
        row.writeToStream(stream, self._buffer)
        stream.close()
        data = self._handed.read_bytes()
        # A row is a word of NULL flags, then offset and size of the column in one word.
        size, offset = unpack_from("<ii", data, 8)
        return data[offset : offset + size]
