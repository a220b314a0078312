"""What a checkpoint belongs to: queries with their plans and topics, kept beside Spark's checkpoints, and the lock on all of it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from kestrel_sql.errors import EngineError, PlanError
from kestrel_sql.kafka.client.offsets import Topic, from_members, to_members
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.plan.codec.json_text import read_json, write_json

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """One query of a checkpoint.

    `name` tells it from the others of an application however its statements are ordered, `id` is the one that it got first and that its
    checkpoint is called by. `plan` is the statement's plan as JSON, `start` where it began to read, `reading` which source it has,
    `pages` how many parts its state has in each task, `has_task_pages` whether tasks have home pages (`spark.state.packing`), which the first
    releases did not know.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All queries of a checkpoint, how often it was started, and the effects of statements that must not be repeated."""

    application: str = field(default_factory=lambda: f"kestrel-{uuid4().hex[:12]}")
    """Begins the names by which the broker knows the writers of this checkpoint."""
    runs: int = 0
    queries: Mapping[str, StoredQuery] = field(default_factory=dict)
    done: Sequence[str] = ()

    def with_query(self, query: StoredQuery) -> Manifest:
        """Add a query, or replace the one of its name."""
        return replace(self, queries={**self.queries, query.name: query})

    def with_done(self, effect: str) -> Manifest:
        """Note an effect."""
        return replace(self, done=(*self.done, effect))

    def next_run(self) -> Manifest:
        """Count a start."""
        return replace(self, runs=self.runs + 1)


class CheckpointInUseError(EngineError):
    """Another process holds the lock of a checkpoint."""


class CheckpointFolder:
    """The folder of `--checkpoint`: `manifest.json`, `lock`, and Spark's checkpoints below `queries/`."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`; it need not exist yet."""
        self.folder = folder

    def path_of(self, query_id: str) -> str:
        """Where Spark keeps a query's checkpoint."""
        return (self.folder / "queries" / query_id).resolve().as_uri()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock; it is gone with the process that holds it, however that ends.

        Raises:
            CheckpointInUseError: another process holds it.
            EngineError: the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise EngineError(f"the checkpoint {self.folder} cannot be used: {error.strerror}") from error
        try:
            self._take(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 100).decode("utf-8", "replace").strip()
            raise CheckpointInUseError(
                f"the checkpoint {self.folder} is in use by another kestrel run ({holder or 'starting'})",
                hint="stop that one first, or give this one a checkpoint of its own",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode())

    def load(self) -> Manifest:
        """Read the manifest; a new one where there is none.

        Raises:
            EngineError: the file is not a manifest that this release reads.
        """
        path = self.folder / "manifest.json"
        try:
            document = read_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Manifest()
        except (OSError, UnicodeDecodeError, PlanError) as error:
            raise EngineError(
                f"{path} cannot be read: {error}", hint="restore it, or begin with a new checkpoint"
            ) from error
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise EngineError(
                f"{path} was written by another release", hint="run that release, or begin with a new checkpoint"
            )
        return _read(document)

    def save(self, manifest: Manifest) -> None:
        """Write the manifest, whole or not at all."""
        document = {
            "format": _FORMAT,
            "application": manifest.application,
            "runs": manifest.runs,
            "queries": [_written(query) for query in manifest.queries.values()],
            "done": list(manifest.done),
        }
        fresh = self.folder / "manifest.json.new"
        with fresh.open("w", encoding="utf-8") as file:
            file.write(write_json(document))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.folder / "manifest.json")

    def next_offsets(self, query_id: str) -> dict[Position, int] | None:
        """Where the query reads on, from Spark's logs of batches; None before the first batch is done."""
        folder = self.folder / "queries" / query_id
        done = [int(entry.name) for entry in folder.glob("commits/[0-9]*") if entry.name.isdigit()]
        if not done:
            return None
        lines = (folder / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()
        members = next((line for line in lines[2:] if line.startswith("{")), None)
        return None if members is None else from_members(json.loads(members))


def _written(query: StoredQuery) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(query).items() if name not in ("sources", "start", "has_task_pages")},
        "has_homes": query.has_task_pages,
        "sources": [asdict(topic) for topic in query.sources.values()],
        "start": to_members(query.start),
    }


def _read(document: Mapping[str, Any]) -> Manifest:
    queries = {}
    for stored in document["queries"]:
        members = {name: value for name, value in stored.items() if name != "has_homes"}
        members["sources"] = {topic["name"]: Topic(**topic) for topic in stored["sources"]}
        members["start"] = from_members(stored["start"])
        queries[stored["name"]] = StoredQuery(**members, has_task_pages=stored.get("has_homes", False))
    return Manifest(
        application=document["application"], runs=int(document["runs"]), queries=queries, done=tuple(document["done"])
    )
