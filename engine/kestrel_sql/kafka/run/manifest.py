"""The manifest of a checkpoint folder: its queries with their plans and topics, beside Spark's checkpoints.

And its lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any, Final
from uuid import uuid4

import msgspec
from msgspec.structs import asdict, replace

from kestrel_sql.errors import CheckpointError, CheckpointInUseError, EngineError, PlanError
from kestrel_sql.kafka.client.offsets import Topic, from_members, to_members
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.source.reading import Reading
from kestrel_sql.plan.codec.json_text import read_json, write_json
from kestrel_sql.spark.checkpoint.batch_log import batch_log_flaws, numbered
from kestrel_sql.spark.checkpoint.lease import Lease
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, read_metadata
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath, remove_folder, write_whole
from kestrel_sql.systems import lock
from kestrel_sql.topics.paths import path_part

MANIFEST: Final = "manifest.json"
"""The file with the queries, their plans and their topics."""

LOCK: Final = "lock"
"""The file that a run locks while it uses a local folder."""

QUERIES: Final = "queries"
"""The folder of Spark's checkpoints, one for each query that was not rescaled."""

RESCALED: Final = "rescaled"
"""The folder of Spark's checkpoints that `kestrel state rescale` wrote, below the number of the rescaling.

The manifest says which of them count.
"""


_FORMAT, _WITH_RESCALED, _WITH_SHARED, _WITH_DIRECT, _WITH_LEVELS = 1, 2, 3, 4, 5
"""The format of the file, those with queries whose checkpoints older code does not find, and those with queries whose
last batch older code would write a second time.
"""


class StoredQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query of a checkpoint.

    Attributes:
        name: identifies the query in the application, whatever the order of statements.
        id: the query id of its first start, which names Spark's checkpoint.
        statement: the text of the statement.
        plan: the plan of the statement as JSON.
        settings: the settings that change the result of the query, if they are not the default.
        reading: the source, as in `kestrel_sql.kafka.source.reading.Reading`.
        sources: the topics that it reads, by name.
        start: the offsets of its first start.
        pages: the number of pages of each task.
        has_task_pages: as in `kestrel_sql.spark.checkpoint.metadata`; `has_homes` in the file.
        pages_by_task: as in `kestrel_sql.spark.checkpoint.metadata`.
        rescaled: the number of the rescaling that wrote its checkpoint, 0 if there was none.
        shared: the name of the checkpoint that it shares (`kestrel_sql.kafka.run.shared_source`), empty if it
            has one of its own.
        level_writes: whether the tasks of its last level write (`kestrel_sql.kafka.level_batches`).
    """

    name: str
    id: str
    statement: str
    plan: Mapping[str, Any]
    settings: Mapping[str, str]
    reading: str
    sources: Mapping[str, Topic]
    start: Mapping[Position, int]
    pages: int
    has_task_pages: bool = False
    rescaled: int = 0
    shared: str = ""
    level_writes: bool = False
    pages_by_task: bool = False

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each topic that it reads."""
        return {name: topic.partitions for name, topic in self.sources.items()}

    def with_pages(self, metadata: CheckpointMetadata) -> StoredQuery:
        """Return the query with the pages of another checkpoint."""
        return replace(self, pages=metadata.pages, pages_by_task=metadata.pages_by_task)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The queries of a checkpoint, its number of starts, and the statements (`done`) that must not run again."""

    application: str = msgspec.field(default_factory=lambda: f"kestrel-{uuid4().hex[:12]}")
    """The prefix of the consumer groups and transactional ids of this checkpoint."""
    runs: int = 0
    queries: Mapping[str, StoredQuery] = {}
    done: Sequence[str] = ()
    adopting: Sequence[str] = ()
    """The queries of ksqlDB that are still to be taken over: each begins once from where ksqlDB was."""

    def with_query(self, query: StoredQuery) -> Manifest:
        """Add a query, or replace the one with its name; it is taken over with that."""
        left = tuple(name for name in self.adopting if name != query.name)
        return replace(self, queries={**self.queries, query.name: query}, adopting=left)

    def without_query(self, name: str) -> Manifest:
        """Remove a query."""
        queries = {key: stored for key, stored in self.queries.items() if key != name}
        return replace(self, queries=queries, adopting=tuple(each for each in self.adopting if each != name))

    def with_done(self, effect: str) -> Manifest:
        """Add a statement that must not be executed again."""
        return replace(self, done=(*self.done, effect))

    def next_run(self) -> Manifest:
        """Increment the number of starts."""
        return replace(self, runs=self.runs + 1)


class CheckpointFolder:
    """The folder of `--checkpoint`: `manifest.json`, `lock`, and Spark's checkpoints in `queries/` and `rescaled/`."""

    def __init__(self, folder: CheckpointPath) -> None:
        """Set the folder, which need not exist yet."""
        self.folder = folder

    @contextmanager
    def locked(
        self, say: Callable[[str], None] = lambda _: None, stop: Event | None = None
    ) -> Iterator[Callable[[], None]]:
        """Hold the lock: on a store a lease, in a folder one that the operating system releases with the process.

        `stop` ends the waiting for a lease, and is set if the lease is lost. The block gets a function that asks the
        store whether the lease is held still, and raises CheckpointInUseError if it is not.

        Raises:
            CheckpointInUseError: another process holds it, or has taken it meanwhile.
            EngineError: the folder cannot be written.
        """
        if isinstance(self.folder, StorePath):
            with _leased(self.folder, say, stop or Event()) as lease:
                self.settle()
                yield lease.check
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise EngineError(f"the checkpoint {self.folder} cannot be used: {error.strerror}") from error
        try:
            self._take(descriptor)
            self.settle()
            yield lambda: None
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        try:
            lock(descriptor, waits=False)
        except BlockingIOError:
            holder = os.read(descriptor, 100).decode("utf-8", "replace").strip()
            raise CheckpointInUseError(
                f"the checkpoint {self.folder} is in use by another kestrel run ({holder or 'starting'})",
                hint="stop that one first, or use another checkpoint for this one",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode())

    def load(self) -> Manifest:
        """Read the manifest, or return a new one if there is none.

        Raises:
            EngineError: the file cannot be read, or another release wrote it.
        """
        path = self.folder / MANIFEST
        try:
            document = read_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Manifest()
        except (OSError, UnicodeDecodeError, PlanError) as error:
            raise EngineError(
                f"{path} cannot be read: {error}", hint="restore it, or start with a new checkpoint"
            ) from error
        if not isinstance(document, dict) or document.get("format") not in range(_FORMAT, _WITH_LEVELS + 1):
            raise EngineError(f"another release wrote {path}", hint="use that release, or start with a new checkpoint")
        try:
            return _read(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(
                f"{path} is damaged: {error}", hint="restore it, or start with a new checkpoint"
            ) from error

    def save(self, manifest: Manifest) -> None:
        """Write the manifest atomically."""
        document = {
            "format": max(map(_format_of, manifest.queries.values()), default=_FORMAT),
            "application": manifest.application,
            "runs": manifest.runs,
            "queries": [_written(query) for query in manifest.queries.values()],
            "done": list(manifest.done),
            **({"adopting": list(manifest.adopting)} if manifest.adopting else {}),
        }
        write_whole(self.folder / MANIFEST, write_json(document))

    def folder_of(self, query: StoredQuery) -> CheckpointPath:
        """Return the folder of Spark's checkpoint of a query, absolute: executors run in folders of their own."""
        folder = self._above(query.rescaled) / path_part(query.shared or query.id)
        return folder if isinstance(folder, StorePath) else folder.resolve()

    def _above(self, rescaled: int) -> CheckpointPath:
        return self.folder / RESCALED / str(rescaled) if rescaled else self.folder / QUERIES

    def settle(self) -> None:
        """Delete the checkpoints of queries that do not count, while the lock is held.

        They are the states before a rescaling, or the copies of one that did not end. The manifest of a rescaling may
        reach a store late, when another run has gone on with the states before; then these count again.

        Raises:
            EngineError: the manifest cannot be read, or the store or the folder fails.
        """
        manifest = self.load()
        try:
            numbers = numbered(self.folder / RESCALED) if manifest.queries else []
            if not numbers and not any(query.rescaled for query in manifest.queries.values()):
                return
            found = {number: _named(self._above(number)) for number in (0, *numbers)}
            for query in manifest.queries.values():
                name = self.folder_of(query).name
                copies = {number: folders[name] for number, folders in found.items() if name in folders}
                counts = _counting(copies, query.rescaled)
                if counts != query.rescaled:
                    metadata = read_metadata(copies[counts])
                    paged = query if metadata is None else query.with_pages(metadata)
                    manifest = manifest.with_query(replace(paged, rescaled=counts))
                    self.save(manifest)
                for number in copies.keys() - {counts}:
                    remove_folder(copies[number])
            for number in {*numbers} - {query.rescaled for query in manifest.queries.values()}:
                remove_folder(self._above(number))
        except OSError as error:
            raise EngineError(f"the checkpoint {self.folder} cannot be used: {error.strerror}") from error

    def next_offsets(self, query: StoredQuery) -> dict[Position, int] | None:
        """Return the offsets from which a query resumes, from Spark's log of batches.

        None before the first committed batch.

        Raises:
            CheckpointError: the log is damaged.
        """
        folder = self.folder_of(query)
        flaw = next(batch_log_flaws(folder), None)
        if flaw is not None:
            raise CheckpointError(f"the query {query.id} cannot resume from the checkpoint {folder}: {flaw}")
        done = numbered(folder / "commits")
        if not done:
            return None
        lines = (folder / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()
        members = next((line for line in lines[2:] if line.startswith("{")), None)
        return None if members is None else from_members(json.loads(members))


@contextmanager
def _leased(folder: StorePath, say: Callable[[str], None], stop: Event) -> Iterator[Lease]:
    lease = Lease(checkpoint=folder, lose=stop.set)
    try:
        lease.take(say, stop)
    except OSError as error:
        raise EngineError(f"{error.strerror}", hint="check the store; nothing was started") from error
    try:
        yield lease
    finally:
        lease.release()


def _named(folder: CheckpointPath) -> dict[str, CheckpointPath]:
    return {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}


def _counting(copies: Mapping[int, CheckpointPath], rescaled: int) -> int:
    """The number of the copy that counts: the one in the manifest, unless an earlier one has gone on."""
    earlier = [number for number in copies if number <= rescaled]
    return max(earlier, key=lambda number: (_reached(copies[number]), number), default=rescaled)


def _reached(folder: CheckpointPath) -> tuple[int, int]:
    """The last batches that a checkpoint has begun and committed."""
    begun, done = (max(numbered(folder / name), default=-1) for name in ("offsets", "commits"))
    return begun, done


_NEWER = ("rescaled", "shared", "level_writes", "pages_by_task")
_CHANGED = ("sources", "start", "has_task_pages", *_NEWER)
"""The members of a query that the file has otherwise, or only if they matter."""


def _format_of(query: StoredQuery) -> int:
    if query.level_writes or query.pages_by_task:
        return _WITH_LEVELS
    if query.reading == Reading.DIRECT:
        return _WITH_DIRECT
    return _WITH_SHARED if query.shared else _WITH_RESCALED if query.rescaled else _FORMAT


def _written(query: StoredQuery) -> dict[str, object]:
    return {
        **{name: value for name, value in asdict(query).items() if name not in _CHANGED},
        **{name: value for name in _NEWER if (value := getattr(query, name))},
        "has_homes": query.has_task_pages,
        "sources": [asdict(topic) for topic in query.sources.values()],
        "start": to_members(query.start),
    }


def _of_types(members: Mapping[str, object], types: Mapping[str, type]) -> None:
    """Check the types of members.

    Raises:
        TypeError: one has another; names it.
    """
    for name, kind in types.items():
        if name in members and type(members[name]) is not kind:
            raise TypeError(f"{name} is {str(members[name])[:_SHOWN]!r}")


_SHOWN = 100
_RUN = {"application": str, "runs": int, "queries": list, "done": list, "adopting": list}
_QUERY = {
    **dict.fromkeys(("name", "id", "statement", "reading", "shared"), str),
    **dict.fromkeys(("pages", "rescaled"), int),
    **dict.fromkeys(("plan", "settings"), dict),
    **dict.fromkeys(("has_homes", "level_writes", "pages_by_task"), bool),
}
_TOPIC = {"name": str, "id": str, "partitions": int}


def _read(document: Mapping[str, Any]) -> Manifest:
    _of_types(document, _RUN)
    for text in document["done"]:
        _of_types({"done": text}, {"done": str})
    queries = {}
    for stored in document["queries"]:
        _of_types(stored, _QUERY)
        _of_types(stored["settings"], dict.fromkeys(stored["settings"], str))
        for topic in stored["sources"]:
            _of_types(topic, _TOPIC)
        for offsets in stored["start"].values():
            _of_types(offsets, dict.fromkeys(offsets, int))
        members = {name: value for name, value in stored.items() if name != "has_homes"}
        members["sources"] = {topic["name"]: Topic(**topic) for topic in stored["sources"]}
        members["start"] = from_members(stored["start"])
        queries[stored["name"]] = StoredQuery(**members, has_task_pages=stored["has_homes"])
    return Manifest(
        application=document["application"],
        runs=document["runs"],
        queries=queries,
        done=tuple(document["done"]),
        adopting=tuple(document.get("adopting", ())),
    )
