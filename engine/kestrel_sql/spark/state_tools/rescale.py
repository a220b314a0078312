"""Rewrites the state of a stopped query for other numbers of partitions and pages, and proves the copy (ADR 37)."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.errors import CheckpointError
from kestrel_sql.operators.operator import Scope, State
from kestrel_sql.operators.row_keys import unpack_key
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.spark.checkpoint.batch_log import numbered
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, write_metadata
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath
from kestrel_sql.spark.state.hashing import can_hash, hash_rows
from kestrel_sql.spark.state.level import PLAN
from kestrel_sql.spark.state.packing import MOST_PLACED
from kestrel_sql.spark.state.stored_rows import StoredPage
from kestrel_sql.spark.state_tools.store_files import write_pages
from kestrel_sql.spark.state_tools.stored_query import StoredQuery, StoredStep
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import INTEGER

MAX_PARTITIONS, MAX_PAGES = 10_000, 1 << 16
"""The largest numbers that a checkpoint may be rescaled to."""

_PARTITIONS = "spark.sql.shuffle.partitions"
_SCHEMAS = "stateSchemaFilePaths"
_COPIED = ("metadata", "sources", "offsets", "commits")
_NUMBER, _FAILED = "number", "failed"
_PLACE = (Column("task", INTEGER), Column("page", INTEGER))

Digest = Mapping[str, tuple[int, int]]
"""For each step the number of things in its state, and the sum of their hashes, which no order changes."""


class Rescaled(msgspec.Struct, frozen=True, kw_only=True):
    """A query whose state was rewritten, and what the old and the new state both hold.

    Attributes:
        query: the query with its new numbers, in its new folder.
        rows: the number of keys and values that were compared.
        pages: the number of pages that have state now.
    """

    query: StoredQuery
    rows: int
    pages: int


def rescale(query: StoredQuery, target: CheckpointPath, *, partitions: int, pages: int) -> Rescaled:
    """Write a copy of a checkpoint with other numbers, from which the query goes on.

    Args:
        query: the query, which must not run.
        target: the folder of the copy, which must not exist; on a store, the copy is made on this machine first.
        partitions: the number of partitions of each stateful level in Spark's store.
        pages: the number of pages of each task.

    Raises:
        CheckpointError: a number or a step does not allow it, a file is damaged, or the copy does not hold the same.
        OSError: the folder or the store cannot be written.
    """
    _check_numbers(partitions, pages, MOST_PLACED if query.metadata.pages_by_task else MAX_PAGES)
    if pages != query.metadata.pages:
        for step in query.steps:
            _check_pages(query, step)
    # With more partitions than tasks, all of them are to have pages.
    by_task = query.metadata.pages_by_task and partitions <= max(query.metadata.tasks)
    copy = replace(query, folder=target, metadata=replace(query.metadata, pages=pages, pages_by_task=by_task))
    with TemporaryDirectory(prefix="kestrel-rescale-") as name:
        local = Path(name) / target.name if isinstance(target, StorePath) else target
        written = _write(query, copy, local, partitions)
        if isinstance(target, StorePath):
            target.put(local)
    return Rescaled(query=copy, rows=_prove(query, copy), pages=written)


def _write(query: StoredQuery, copy: StoredQuery, target: Path, partitions: int) -> int:
    """Write the files of a copy into a folder; return the number of pages that have state."""
    target.mkdir(parents=True)
    for name in _COPIED:
        _copy(query.folder / name, target / name)
    _set_partitions(target, query, copy, partitions)
    written = 0
    for level in range(1, query.levels + 1):
        folder = target / "state" / str(query.levels - level)
        written += _write_level(query, level, folder, partitions, copy.metadata)
    write_metadata(target, copy.metadata)
    return written


def _check_numbers(partitions: int, pages: int, most: int) -> None:
    for name, number, limit in (("partitions", partitions, MAX_PARTITIONS), ("pages", pages, most)):
        if not 1 <= number <= limit:
            raise CheckpointError(f"the number of {name} is {number}; it must be between 1 and {limit}")


def _check_pages(query: StoredQuery, step: StoredStep) -> None:
    """Check that the pages of the keys of a step can be computed here."""
    for side in range(len(step.stateful.inputs)) if step.operator.scope is Scope.KEY else ():
        for column in step.key_columns(side):
            if not can_hash([column]):
                raise CheckpointError(
                    f"the query {query.id} cannot change its number of pages: the key {column.name} of its step "
                    f"{step.name} is a {column.type}, which has no page of its own",
                    hint="leave --pages out",
                )


def _copy(source: CheckpointPath, target: Path) -> None:
    """Copy a file or folder without Hadoop's checksums, some of which would no longer fit."""
    if isinstance(source, StorePath):
        if source.exists():
            source.fetch(target)
    elif source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".*"))
    elif source.exists():
        shutil.copy2(source, target)


def _set_partitions(target: Path, query: StoredQuery, copy: StoredQuery, partitions: int) -> None:
    """Set the number of partitions where Spark reads it: the last batches, and the metadata of operators.

    The metadata also has the full paths of files, as Hadoop writes paths.
    """
    place = str(copy.folder) if isinstance(copy.folder, StorePath) else f"file:{copy.folder.absolute()}"
    for number in numbered(target / "offsets"):
        if number >= query.batches - 1:
            file = target / "offsets" / str(number)
            version, head, *rest = file.read_text(encoding="utf-8").split("\n")
            document = json.loads(head)
            document.setdefault("conf", {})[_PARTITIONS] = str(partitions)
            file.write_text("\n".join([version, json.dumps(document, separators=(",", ":")), *rest]), encoding="utf-8")
    for level in range(query.levels):
        for part in ("_metadata", "_stateSchema"):
            _copy(query.folder / "state" / str(level) / part, target / "state" / str(level) / part)
        for number in numbered(target / "state" / str(level) / "_metadata" / "v2"):
            file = target / "state" / str(level) / "_metadata" / "v2" / str(number)
            version, _, text = file.read_text(encoding="utf-8").partition("\n")
            document = json.loads(text)
            for store in document["stateStoreInfo"]:
                store["numPartitions"] = partitions
                schemas = store.get(_SCHEMAS, ())
                store[_SCHEMAS] = [f"{place}/state/{path.rpartition('/state/')[2]}" for path in schemas]
            file.write_text(f"{version}\n{json.dumps(document, separators=(',', ':'))}", encoding="utf-8")


def _write_level(query: StoredQuery, level: int, folder: Path, partitions: int, after: CheckpointMetadata) -> int:
    before = query.metadata
    is_same = (after.pages, after.pages_by_task) == (before.pages, before.pages_by_task)
    moved = list(query.pages(level) if is_same else _repaged(query, level, after))
    write_partitions(folder, query.batches, moved, partitions)
    return len(moved)


def write_partitions(folder: Path, version: int, pages: Iterable[StoredPage], partitions: int) -> None:
    """Write the pages of a level into new partitions of Spark's store."""
    ordered = sorted(pages, key=lambda page: (page.task, page.page))
    found: dict[int, list[StoredPage]] = defaultdict(list)
    places = pages_of([(page.task, page.page) for page in ordered], _PLACE, partitions)
    for partition, page in zip(places, ordered, strict=True):
        found[partition].append(page)
    for partition in range(partitions):
        write_pages(folder / str(partition), version, found[partition])


def _repaged(query: StoredQuery, level: int, after: CheckpointMetadata) -> Iterator[StoredPage]:
    """Yield the pages of a level after their keys got other pages."""
    steps = [step for step in query.steps if step.level == level]
    states: dict[tuple[int, int], State] = defaultdict(dict)
    for page, state in query.states(level):
        for step in steps:
            own = state.get(step.relation)
            if own is None:
                continue
            if _FAILED in own:
                raise CheckpointError(
                    f"the query {query.id} cannot change its number of pages: its step {step.name} has failed",
                    hint="fix the query and start it with a new checkpoint",
                )
            if step.operator.scope is not Scope.KEY:
                states[page.task, page.page][step.relation] = own
                continue
            for number, part in _split(query, step, page, own, after.pages):
                _merge(states[page.task, after.page(page.task, number)].setdefault(step.relation, {}), part)
    fingerprint = query.pipeline.level(level).fingerprint()
    for (task, place), state in states.items():
        yield StoredPage(task, place, dump_state({PLAN: fingerprint, **state}))


def _split(
    query: StoredQuery, step: StoredStep, page: StoredPage, own: State, pages: int
) -> Iterator[tuple[int, State]]:
    """Yield the parts of the state of a step in a page, by the number of their new page."""
    for name, rows in own.items():
        if name != _NUMBER and not isinstance(rows, Mapping):
            raise CheckpointError(f"the query {query.id} cannot be rescaled: its step {step.name} holds {name}")
    if by_page(step, own, query.metadata.pages).keys() - {query.metadata.number(page.task, page.page)}:
        raise CheckpointError(
            f"the query {query.id} cannot change its number of pages: page {page.page} of task {page.task} of its "
            f"step {step.name} has keys of other pages",
            hint="leave --pages out",
        )
    yield from by_page(step, own, pages).items()


def by_page(step: StoredStep, own: State, pages: int) -> dict[int, State]:
    """Return the parts of the state of a step that keeps rows by key, by the number of the page of the key."""
    parts: dict[int, State] = defaultdict(dict)
    for name, rows in own.items():
        if name == _NUMBER:
            continue
        columns, keys = _keys(step, name, list(rows))
        for (key, row), number in zip(rows.items(), pages_of(keys, columns, pages), strict=True):
            parts[number].setdefault(name, {})[key] = row
    return {number: {**part, _NUMBER: own[_NUMBER]} if _NUMBER in own else part for number, part in parts.items()}


def _merge(state: State, part: State) -> None:
    for name, rows in part.items():
        if name == _NUMBER:
            # It counts rows, and only its order within a key matters.
            state[name] = max(state.get(name, 0), rows)
        else:
            state.setdefault(name, {}).update(rows)


def _keys(step: StoredStep, part: str, packed: Sequence[bytes]) -> tuple[Sequence[Column], list[tuple[object, ...]]]:
    """The key columns of a part of a state, and its keys."""
    side = 1 if part == "right" or (len(step.stateful.inputs) == 2 and part == "rows") else 0
    restored = step.keys()
    windowed = step.stateful.inputs[side].window is not None
    return step.key_columns(side), [restored(side, unpack_key(key)[0] if windowed else key) for key in packed]


def pages_of(keys: Sequence[tuple[object, ...]], columns: Sequence[Column], pages: int) -> list[int]:
    """Return the page of each key, or the partition of each page: Spark's hash modulo a number."""
    if not keys or not can_hash(columns):
        return [0] * len(keys)
    arrays = [pa.array([key[at] for key in keys], to_arrow(column.type)) for at, column in enumerate(columns)]
    found: list[int] = np.mod(hash_rows(arrays, columns).astype(np.int64), pages).tolist()
    return found


def _prove(old: StoredQuery, new: StoredQuery) -> int:
    """Read both states from their files and compare them; returns the number of things compared."""
    before, after = digest(old), digest(new)
    if before != after:
        differing = next(name for name in before if before[name] != after.get(name))
        raise CheckpointError(
            f"the rescaled state of the query {old.id} does not hold the same rows in its step {differing}",
            hint="the checkpoint was not changed; please report this with the statement of the query",
        )
    return sum(count for count, _ in before.values())


def digest(query: StoredQuery) -> Digest:
    """Return what a state holds, whatever its partitions and pages: every key with its value, and every stream time."""
    found: dict[str, tuple[int, int]] = {}
    for level in range(1, query.levels + 1):
        steps = [step for step in query.steps if step.level == level]
        for page, state in query.states(level):
            for step in steps:
                for item in _items(step, page, state.get(step.relation, {})):
                    count, total = found.get(step.name, (0, 0))
                    hashed = int.from_bytes(blake2b(dump_state({"": item}), digest_size=16).digest())
                    found[step.name] = (count + 1, (total + hashed) % (1 << 128))
    return found


def _items(step: StoredStep, page: StoredPage, own: State) -> Iterable[object]:
    """What a state holds, as values that do not depend on the page."""
    for name, rows in own.items():
        if step.operator.scope is Scope.KEY and name == _NUMBER:
            continue
        if isinstance(rows, Mapping):
            for key, row in rows.items():
                yield [page.task, name, key, row]
        else:
            yield [page.task, name, rows]
