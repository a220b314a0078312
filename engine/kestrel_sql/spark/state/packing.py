"""Packs rows into one Arrow blob for each page in front of a stateful level, and unpacks the blobs of the level.

Spark passes rows to a stateful processor one by one, cell by cell. `pack_batches` therefore makes one row of all rows
of a page, and `unpack_batches` splits the results into rows again. Rows that the level does not read stay in Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.arrow.columns import to_rows
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.operators.operator import Scope
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, LOG_ONLY, parts_of, struct_column
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.blobs import BLOB, in_chunks, read_rows, write_rows
from kestrel_sql.spark.io.columns import child_ordinals, rows_at, small, widened
from kestrel_sql.spark.state.hashing import can_hash, hash_rows
from kestrel_sql.spark.state.level import Level
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import INTEGER

PACKED = f"task INT, page INT, passing BOOLEAN, {BLOB}"
"""The result of packing: rows of a page as an Arrow record batch without schema.

The level does not read `passing` rows.
"""

UNPACKED = f"passing BOOLEAN, {BLOB}"
"""The result of the host."""

PAGE, OLD_PAGE = "page", "old_page"
"""Columns that a stage adds for the level: the page of the key of a row, and of its previous key."""

_KEYS = {PAGE: "k", OLD_PAGE: "ok"}
"""The fields of these keys."""

_PACKED = pa.schema([("task", pa.int32()), ("page", pa.int32()), ("passing", pa.bool_()), ("rows", pa.binary())])

_MAX_PAGES = 1 << 20

_TRIED = 1 << 14
_DIVISIBLE = 720
"""A number that most numbers of partitions divide, and small enough for `task_pages` to find pages quickly."""

MOST_PLACED = 1 << 10
"""The most pages that are found for each task."""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def pack_batches(level: Level, partitions: Sequence[int], *, has_task_pages: bool = False, placed: int = 0) -> Pass:
    """Return the function for `mapInArrow` that packs rows into pages.

    Args:
        level: the level after it.
        partitions: the number of tasks of each query.
        has_task_pages: whether rows whose operator needs all keys of a task go to its `task_page`, or else to its first
            page.
        placed: the number of pages of each task, if all are to be its `task_pages`, else 0.
    """
    found = [task_pages(task, placed) for task in range(max(partitions, default=1))]
    first = [task_page(task) if has_task_pages else 0 for task in range(max(partitions, default=1))]

    def pack(batches: Batches) -> Batches:
        packer = _Packer(level, np.array(partitions, dtype=np.int64), np.array(first, dtype=np.int64), np.array(found))
        for batch in in_chunks(batches):
            columns = zip(zip(*packer.pack(batch), strict=True), _PACKED.types, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in columns], schema=_PACKED)

    return pack


def unpack_batches(level: Level) -> Pass:
    """Return the function for `mapInArrow` that turns the blobs of the host into the rows after the level."""

    def unpack(packed: Batches) -> Batches:
        passing, made, after = level.passing(), level.made(), level.after()

        def rows() -> Batches:
            for batch in packed:
                for passes, blob in zip(*(batch.column(at).to_pylist() for at in (0, 1)), strict=True):
                    yield widened(read_rows(blob, passing if passes else made), after)

        yield from in_chunks(rows())

    return unpack


def page_batches(level: Level, pages: int) -> Pass:
    """Return the function for `mapInArrow` that adds the columns `page` and `old_page`.

    There must be more than one page.
    """
    paged = _paged(level)

    def page(batches: Batches) -> Batches:
        for batch in batches:
            relations = batch.column("rel").to_numpy()
            for column, keyed in paged.items():
                numbers = np.zeros(batch.num_rows, dtype=np.int32)
                for relation in keyed:
                    own = relations == relation.number
                    if own.any():
                        structs = batch.column(struct_column(relation.number))
                        keys = pc.struct_field(structs if own.all() else structs.filter(pa.array(own)), _KEYS[column])
                        numbers[own] = hash_rows(keys.flatten(), relation.schema.key) % pages
                batch = batch.append_column(column, pa.array(numbers))
            yield batch

    return page


def _paged(level: Level) -> Mapping[str, Sequence[Relation]]:
    """The relations whose keys determine their page, by the column of that page."""
    inputs = [
        relation for stateful in level.operators for relation in stateful.inputs if stateful.operator.scope is Scope.KEY
    ]
    return {
        column: [each for each in inputs if key in parts_of(each) and can_hash(each.schema.key)]
        for column, key in _KEYS.items()
    }


def task_page(task: int) -> int:
    """Return the page of a task for state that spans its keys, the first of its `task_pages`."""
    return task_pages(task, 1)[0]


@cache
def task_pages(task: int, count: int) -> Sequence[int]:
    """Return the pages of a task, up to `MOST_PLACED`, if all are to lie in one partition.

    Spark assigns a page to the partition `hash(task, page) % partitions`. If every task used page 0, two tasks would
    often get the same one of two partitions, and a core would be idle. With these pages the partition is `task %
    partitions`, for every number of partitions that divides `_DIVISIBLE`.
    """
    chosen: list[int] = []
    for start in range(0, _MAX_PAGES, _TRIED):
        if len(chosen) >= count:
            break
        pages = np.arange(start, start + _TRIED, dtype=np.int32)
        hashes = hash_rows([pa.array(np.full_like(pages, task)), pa.array(pages)], [Column("", INTEGER)] * 2)
        chosen += pages[hashes % _DIVISIBLE == task % _DIVISIBLE].tolist()
    return tuple(chosen[:count])


def separates_tasks(partitions: int) -> bool:
    """Whether the `task_pages` of a task lie in the partition `task % partitions`."""
    return _DIVISIBLE % partitions == 0


@dataclass(slots=True)
class _Packer:
    level: Level
    partitions: Numbers
    task_pages: Numbers
    placed: Numbers
    """The pages of each task by their numbers, if they are placed."""
    passing: pa.Schema = field(init=False)
    read: pa.Schema = field(init=False)
    crossing: list[int] = field(init=False)
    """Relations whose operators need all keys of a task."""

    def __post_init__(self) -> None:
        self.passing, self.read = self.level.passing(), self.level.read()
        operators = self.level.operators
        self.crossing = [
            relation.number for each in operators if each.operator.scope is not Scope.KEY for relation in each.inputs
        ]

    def pack(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int, bool, bytes]]:
        """Return rows of `PACKED`: task, page, whether the rows pass unread, and the rows."""
        relations = batch.column("rel").to_numpy()
        wanted = np.isin(relations, list(self.level.inputs()))
        yield from self._passing(batch, wanted)
        if not wanted.any():
            return
        chosen = batch if wanted.all() else batch.filter(pa.array(wanted))
        rows = _as(chosen, self.read)
        for pages, part in self._split(chosen, rows):
            for page, piece in _by_page(pages, part):
                yield int(page // _MAX_PAGES), int(page % _MAX_PAGES), False, write_rows(piece)

    def _passing(self, batch: pa.RecordBatch, wanted: Flags) -> Iterator[tuple[int, int, bool, bytes]]:
        """The rows that the level does not read, and the log entries of those that it reads."""
        if not wanted.all():
            yield 0, 0, True, write_rows(_as(batch.filter(pa.array(~wanted)), self.passing))
        logged = pc.list_value_length(batch.column("log")).fill_null(0).to_numpy() > 0
        if (wanted & logged).any():
            rows = batch.filter(pa.array(wanted & logged)).select([f.name for f in ENVELOPE_FIELDS])
            log_only = rows.set_column(0, "rel", pa.array(np.full(rows.num_rows, LOG_ONLY), pa.int32()))
            yield (
                0,
                0,
                True,
                write_rows(_as(widened(_as(log_only, pa.schema(ENVELOPE_FIELDS)), self.passing), self.passing)),
            )

    def _split(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
        """The rows with their pages.

        A change of a table row that moves it to a group in another page becomes two rows.
        """
        pages = self._pages(batch, rows, PAGE, "k")
        if not any(relation.has_old_key for relation in self.level.inputs().values()):
            yield pages, rows
            return
        old = self._pages(batch, rows, OLD_PAGE, "ok")
        enters, leaves = self._present(rows, "k"), self._present(rows, "ok")
        moves = enters & leaves & (old != pages)
        pages = np.where(leaves & ~enters, old, pages)
        if not moves.any():
            yield pages, rows
            return
        yield pages[~moves], rows.filter(pa.array(~moves))
        moving = rows.filter(pa.array(moves))
        yield old[moves], self._half(moving, 0, ("k", "v"))
        yield pages[moves], self._half(moving, 1, ("ok", "o"))

    def _pages(self, batch: pa.RecordBatch, rows: pa.RecordBatch, column: str, key: str) -> Numbers:
        """The task and page of each row as one number."""
        names = batch.schema.names
        pages: Numbers = (
            batch.column(column).to_numpy().astype(np.int64) if column in names else np.zeros(rows.num_rows, np.int64)
        )
        if self.partitions.max(initial=1) <= 1:
            return pages
        tasks = self._tasks(rows, key)
        if self.placed.size:
            pages = self.placed[tasks, pages]
        if self.crossing:
            pages = np.where(np.isin(rows.column("rel").to_numpy(), self.crossing), self.task_pages[tasks], pages)
        return pages + _MAX_PAGES * tasks

    def _tasks(self, rows: pa.RecordBatch, key: str) -> Numbers:
        counts = self.partitions[rows.column("q").to_numpy()]
        tasks: Numbers = rows.column("task").to_numpy().astype(np.int64) % counts
        relations = rows.column("rel").to_numpy()
        for stateful in self.level.operators:
            operator: Any = stateful.operator
            for relation in stateful.inputs:
                own = np.flatnonzero(relations == relation.number)
                if operator.scope is Scope.QUERY:
                    tasks[own] = 0
                elif relation.rekeyed and len(own) and key in parts_of(relation):
                    structs = rows.column(struct_column(relation.number)).take(pa.array(own))
                    keys = to_rows(structs.field(key) if not structs.null_count else pc.struct_field(structs, key))
                    tasks[own] = _partitions(keys, operator.key_bytes, counts[own], tasks[own])
        return tasks

    def _present(self, rows: pa.RecordBatch, key: str) -> Flags:
        """Which rows have the key field `key`, in relations with a previous key."""
        found = np.zeros(rows.num_rows, dtype=bool)
        for relation in self.level.inputs().values():
            if relation.has_old_key:
                struct = rows.column(struct_column(relation.number))
                found |= pc.struct_field(struct, key).is_valid().to_numpy(zero_copy_only=False)
        return found

    def _half(self, rows: pa.RecordBatch, position: int, absent: tuple[str, str]) -> pa.RecordBatch:
        """Half of a row that changes its page.

        The `absent` fields are NULL, and `position` is appended to the ordinal.
        """
        ordinals = child_ordinals(rows.column("ordinal"), np.full(rows.num_rows, position))
        made = rows.set_column(rows.schema.get_field_index("ordinal"), "ordinal", ordinals)
        for relation in self.level.inputs().values():
            if relation.has_old_key:
                at = made.schema.get_field_index(struct_column(relation.number))
                made = made.set_column(at, made.schema.field(at), _without(made.column(at), absent))
        return made


_K = TypeVar("_K", bound=Sequence[object])


def _partitions(
    keys: Sequence[_K | None], key_bytes: Callable[[_K], bytes], counts: Numbers, default: Numbers
) -> Numbers:
    """The partition of each key, as Kafka's producer chooses it; `default` for rows without a key."""
    partition = lru_cache(maxsize=None)(partition_of)
    found = [
        number if key is None else partition(key_bytes(key), count)
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
    tasks, own = np.divmod(pages, _MAX_PAGES)
    order = np.argsort(small(tasks * (1 + own.max()) + own), kind="stable")
    sorted_pages, sorted_rows = pages[order], rows_at(rows, order)
    starts = [0, *(np.flatnonzero(np.diff(sorted_pages)) + 1).tolist(), len(order)]
    for start, end in pairwise(starts):
        yield int(sorted_pages[start]), sorted_rows.slice(start, end - start)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Select the columns of `schema`, cast to its types: an expression may have a narrower type than its column."""
    columns = [batch.column(f.name) for f in schema]
    arrays = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
