"""Both sides of a stateful level: rows split into pages and packed as Arrow blobs for the host, and the host's blobs unpacked again.

Spark hands rows to a stateful processor one by one, cell by cell. A page's rows therefore go through it as one row that holds
many: `pack_batches` in front, `unpack_batches` behind. Rows that the level does not read stay Arrow all the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.operators.operator import Scope
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.blobs import in_chunks, read_rows, write_rows
from kestrel_sql.spark.io.columns import to_rows
from kestrel_sql.spark.io.topics import ENVELOPE_FIELDS
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import DEAD, is_relation, struct_column
from kestrel_sql.spark.state.hashing import HASHABLE, hash_rows
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.types import struct_of
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import INTEGER

PACKED = "task INT, page INT, passing BOOLEAN, rows BINARY"
"""What packing gives: rows of one page as the batch of an Arrow stream without its schema; `passing` rows are not read by the level."""

UNPACKED = "passing BOOLEAN, rows BINARY"
"""What the host gives."""

PAGE, OLD_PAGE = "page", "old_page"
"""Columns that a stage adds for the level: the page of a row's key, and of the key it had before."""

_KEYS = {PAGE: "k", OLD_PAGE: "ok"}
"""Where these keys are."""

_PACKED = pa.schema([("task", pa.int32()), ("page", pa.int32()), ("passing", pa.bool_()), ("rows", pa.binary())])

_MOST_PAGES = 1 << 20

_TRIED = 1 << 14
_SPREAD = 720
"""A number that most numbers of cores divide, and small enough for a page to be found at once."""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def pack_batches(level: Level, partitions: Sequence[int], *, has_homes: bool = False) -> Pass:
    """Make the function for `mapInArrow` that splits rows into pages; `partitions` are those of each query's internal topics.

    What must meet across keys has the first page of its task, or its home page (`home_page`).
    """
    homes = [home_page(task) if has_homes else 0 for task in range(max(partitions, default=1))]

    def pack(batches: Batches) -> Batches:
        packer = _Packer(level, np.array(partitions, dtype=np.int64), np.array(homes, dtype=np.int64))
        for batch in in_chunks(batches):
            columns = zip(zip(*packer.pack(batch), strict=True), _PACKED.types, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in columns], schema=_PACKED)

    return pack


def unpack_batches(level: Level) -> Pass:
    """Make the function for `mapInArrow` that turns the host's blobs into the rows behind the level."""

    def unpack(packed: Batches) -> Batches:
        passing, made, behind = level.passing(), level.made(), level.behind()

        def rows() -> Batches:
            for batch in packed:
                for passes, blob in zip(*(batch.column(at).to_pylist() for at in (0, 1)), strict=True):
                    yield _widened(read_rows(blob, passing if passes else made), behind)

        yield from in_chunks(rows())

    return unpack


def page_columns(level: Level, pages: int) -> list[str]:
    """The columns `page` and `old_page` as Spark SQL; none where there is one page only.

    Rows that an operator must see together across keys have the first page for themselves.
    """
    if pages == 1:
        return []
    columns = {}
    for column, handles in _paged(level).items():
        key = _KEYS[column]
        branches = [
            (is_relation(handle.relation), s.call("pmod", s.call("hash", handle.part(key)), s.integer(pages)))
            for handle in handles
        ]
        columns[column] = s.case(branches, s.integer(0)) if branches else s.integer(0)
    return [f"{s.to_text(tree)} AS {column}" for column, tree in columns.items()]


def can_page(level: Level, pages: int) -> bool:
    """Whether `page_batches` can do what `page_columns` does: the hashes of the keys' types are known here."""
    handles = [handle for paged in _paged(level).values() for handle in paged]
    return pages == 1 or all(column.type in HASHABLE for handle in handles for column in handle.schema.key)


def page_batches(level: Level, pages: int) -> Pass:
    """Make the function for `mapInArrow` that adds the columns `page` and `old_page`, where there is more than one page."""
    paged = _paged(level)

    def page(batches: Batches) -> Batches:
        for batch in batches:
            relations = batch.column("rel").to_numpy()
            for column, handles in paged.items():
                numbers = np.zeros(batch.num_rows, dtype=np.int32)
                for handle in handles:
                    own = relations == handle.relation
                    if own.any():
                        structs = batch.column(struct_column(handle.relation))
                        keys = pc.struct_field(structs if own.all() else structs.filter(pa.array(own)), _KEYS[column])
                        numbers[own] = hash_rows(keys.flatten(), handle.schema.key) % pages
                batch = batch.append_column(column, pa.array(numbers))
            yield batch

    return page


def _paged(level: Level) -> Mapping[str, Sequence[Handle]]:
    """The relations whose keys say their page, by the column that holds it."""
    handles = [
        handle for stateful in level.operators for handle in stateful.inputs if stateful.operator.scope is Scope.KEY
    ]
    return {
        column: [each for each in handles if key in dict(each.fields()) and not _has_map(each)]
        for column, key in _KEYS.items()
    }


@cache
def home_page(task: int) -> int:
    """The page in which a task keeps what must meet across keys.

    Spark brings a page to the partition that its hash says. With the first page of each task, two tasks would meet in one of two partitions
    as often as not, and the other core had nothing to do. The hash of this one is that of the task's number, for every number of
    partitions that divides `_SPREAD`.
    """
    for start in range(0, _MOST_PAGES, _TRIED):
        pages = np.arange(start, start + _TRIED, dtype=np.int32)
        hashes = hash_rows([pa.array(np.full_like(pages, task)), pa.array(pages)], [Column("", INTEGER)] * 2)
        (found,) = np.nonzero(hashes % _SPREAD == task % _SPREAD)
        if len(found):
            return int(pages[found[0]])
    return 0


def _has_map(handle: Handle) -> bool:
    """Whether a key holds a MAP, which Spark does not hash; only plans of old releases have such keys."""
    return "MAP<" in struct_of(handle.schema.key)


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    present = {column: at for at, column in enumerate(batch.schema.names)}
    arrays = [batch.column(present[f.name]) if f.name in present else pa.nulls(batch.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(slots=True)
class _Packer:
    level: Level
    partitions: Numbers
    homes: Numbers
    passing: pa.Schema = field(init=False)
    read: pa.Schema = field(init=False)
    crossing: list[int] = field(init=False)
    """Relations whose rows must meet across keys."""

    def __post_init__(self) -> None:
        self.passing, self.read = self.level.passing(), self.level.read()
        operators = self.level.operators
        self.crossing = [
            handle.relation for each in operators if each.operator.scope is not Scope.KEY for handle in each.inputs
        ]

    def pack(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int, bool, bytes]]:
        """Give task, page, whether they pass, and the rows."""
        relations = batch.column("rel").to_numpy()
        wanted = np.isin(relations, list(self.level.inputs()))
        yield from self._passing(batch, wanted)
        if not wanted.any():
            return
        chosen = batch if wanted.all() else batch.filter(pa.array(wanted))
        rows = _as(chosen, self.read)
        for pages, part in self._split(chosen, rows):
            for page, piece in _by_page(pages, part):
                yield int(page // _MOST_PAGES), int(page % _MOST_PAGES), False, write_rows(piece)

    def _passing(self, batch: pa.RecordBatch, wanted: Flags) -> Iterator[tuple[int, int, bool, bytes]]:
        """Rows that the level does not read, and log entries of those that it does."""
        if not wanted.all():
            yield 0, 0, True, write_rows(_as(batch.filter(pa.array(~wanted)), self.passing))
        logged = pc.list_value_length(batch.column("log")).fill_null(0).to_numpy() > 0
        if (wanted & logged).any():
            rows = batch.filter(pa.array(wanted & logged)).select([f.name for f in ENVELOPE_FIELDS])
            dead = rows.set_column(0, "rel", pa.array(np.full(rows.num_rows, DEAD), pa.int32()))
            yield (
                0,
                0,
                True,
                write_rows(_as(_widened(_as(dead, pa.schema(ENVELOPE_FIELDS)), self.passing), self.passing)),
            )

    def _split(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
        """The rows with their pages; a row of a table that leaves one page's group for one of another page becomes two."""
        pages = self._pages(batch, rows, PAGE, "k")
        if not any(handle.has_old_key for handle in self.level.inputs().values()):
            yield pages, rows
            return
        old = self._pages(batch, rows, OLD_PAGE, "ok")
        enters, leaves = self._present(rows, "k"), self._present(rows, "ok")
        moved = enters & leaves & (old != pages)
        pages = np.where(leaves & ~enters, old, pages)
        if not moved.any():
            yield pages, rows
            return
        yield pages[~moved], rows.filter(pa.array(~moved))
        movers = rows.filter(pa.array(moved))
        yield old[moved], self._half(movers, 0, ("k", "v"))
        yield pages[moved], self._half(movers, 1, ("ok", "o"))

    def _pages(self, batch: pa.RecordBatch, rows: pa.RecordBatch, column: str, key: str) -> Numbers:
        """Task and page of each row as one number."""
        names = batch.schema.names
        pages: Numbers = (
            batch.column(column).to_numpy().astype(np.int64) if column in names else np.zeros(rows.num_rows, np.int64)
        )
        if self.partitions.max(initial=1) <= 1:
            return pages
        tasks = self._tasks(rows, key)
        if self.crossing:
            pages = np.where(np.isin(rows.column("rel").to_numpy(), self.crossing), self.homes[tasks], pages)
        return pages + _MOST_PAGES * tasks

    def _tasks(self, rows: pa.RecordBatch, key: str) -> Numbers:
        counts = self.partitions[rows.column("q").to_numpy()]
        tasks: Numbers = rows.column("task").to_numpy().astype(np.int64) % counts
        relations = rows.column("rel").to_numpy()
        for stateful in self.level.operators:
            operator: Any = stateful.operator
            for handle in stateful.inputs:
                own = np.flatnonzero(relations == handle.relation)
                if operator.scope is Scope.QUERY:
                    tasks[own] = 0
                elif handle.rekeyed and len(own) and key in dict(handle.fields()):
                    structs = rows.column(struct_column(handle.relation)).take(pa.array(own))
                    keys = to_rows(structs.field(key) if not structs.null_count else pc.struct_field(structs, key))
                    tasks[own] = _partitions(keys, operator.key_bytes, counts[own], tasks[own])
        return tasks

    def _present(self, rows: pa.RecordBatch, key: str) -> Flags:
        """Which rows have a key, of those relations that have an old one, too."""
        found = np.zeros(rows.num_rows, dtype=bool)
        for handle in self.level.inputs().values():
            if handle.has_old_key:
                struct = rows.column(struct_column(handle.relation))
                found |= pc.struct_field(struct, key).is_valid().to_numpy(zero_copy_only=False)
        return found

    def _half(self, rows: pa.RecordBatch, position: int, absent: tuple[str, str]) -> pa.RecordBatch:
        """One side of a row that moves: the fields of the other side are NULL."""
        places = pa.array([[*place, position] for place in rows.column("place").to_pylist()], pa.list_(pa.int64()))
        made = rows.set_column(rows.schema.get_field_index("place"), "place", places)
        for handle in self.level.inputs().values():
            if handle.has_old_key:
                at = made.schema.get_field_index(struct_column(handle.relation))
                made = made.set_column(at, made.schema.field(at), _without(made.column(at), absent))
        return made


def _partitions(keys: Sequence[Any], key_bytes: Callable[[Any], bytes], counts: Numbers, default: Numbers) -> Numbers:
    """The partition of each key, as Kafka's producer chooses it; rows without a key stay where they are."""
    partition = lru_cache(maxsize=None)(partition_of)
    found = [
        number if key is None or key[0] is None else partition(key_bytes(key), count)
        for key, count, number in zip(keys, counts.tolist(), default.tolist(), strict=True)
    ]
    return np.array(found, dtype=np.int64)


def _without(struct: pa.StructArray, absent: tuple[str, str]) -> pa.StructArray:
    fields = list(struct.type)
    children = struct.flatten()
    arrays = [
        pa.nulls(len(struct), f.type) if f.name in absent else child for f, child in zip(fields, children, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=struct.is_null())


def _by_page(pages: Numbers, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not rows.num_rows:
        return
    if (pages == pages[0]).all():
        yield int(pages[0]), rows
        return
    order = np.argsort(pages, kind="stable")
    sorted_pages, sorted_rows = pages[order], rows.take(pa.array(order))
    starts = [0, *(np.flatnonzero(np.diff(sorted_pages)) + 1).tolist(), len(order)]
    for start, end in pairwise(starts):
        yield int(sorted_pages[start]), sorted_rows.slice(start, end - start)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, in its types: an expression may be narrower than the column that it fills."""
    columns = [batch.column(f.name) for f in schema]
    arrays = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
