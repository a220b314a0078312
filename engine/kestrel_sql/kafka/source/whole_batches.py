"""Tells readers of a topic up to where the batches of the queries that write it are whole (ADR 17).

The sink writes a batch in a transaction for each of its writers, and the broker shows one after the other. A reader
that takes its records by time must not see half a batch, because the other half may be hours behind. Spark plans a
source in a process of its own on the machine of the driver, so the word goes through a folder: a file for each topic
and query.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypedDict
from urllib.parse import quote

import msgspec

from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.positions import Offsets, Position

_PATIENCE_S = 0.5
"""How long to wait until the broker shows what was committed; it never does while a transaction of others is open."""

_LOOK_S = 0.01


def watch(folder: Path, topics: Iterable[str]) -> None:
    """Let the queries that write these topics tell of their batches."""
    for topic in topics:
        _folder_of(folder, topic).mkdir(parents=True, exist_ok=True)


class WrittenBatches(msgspec.Struct, kw_only=True):
    """Tells of the batches of a query that writes `topics`, as far as these are watched.

    `is_interrupted` says that an earlier process has begun a batch and not finished it.
    """

    folder: Path
    query: str
    topics: frozenset[str]
    offsets: BrokerOffsets
    is_interrupted: bool = False
    _ends: dict[str, dict[int, int]] | None = None
    _is_writing: bool = False
    _said: int = 0

    def start(self) -> None:
        """Say if a batch was begun by an earlier process: readers take nothing until it is whole."""
        if self.is_interrupted:
            self.is_interrupted = False
            self._ends = {topic: {} for topic in self._watched()}
            self._say(is_writing=True)

    def begin(self) -> None:
        """Say that a batch begins; one that failed and is written again has begun before."""
        if self._is_writing or not self._watched():
            return
        if self._ends is None:
            self._ends = self._now()
        self._say(is_writing=True)

    def end(self) -> None:
        """Say that a batch is whole."""
        if self._is_writing:
            self._ends = self._now()
            self._say(is_writing=False)

    def leave(self) -> None:
        """Say that the query writes no more."""
        if self._is_writing:
            self._say(is_writing=False)

    @property
    def are_watched(self) -> bool:
        """Whether a query waits until batches are whole."""
        return bool(self._watched())

    def _watched(self) -> list[str]:
        return [topic for topic in sorted(self.topics) if _folder_of(self.folder, topic).is_dir()]

    def _now(self) -> dict[str, dict[int, int]]:
        """The ends of the topics; the broker may not have marked yet in every partition what it has committed."""
        found: dict[str, dict[int, int]] = defaultdict(dict)
        known = self.offsets.topics(self._watched())
        for (topic, number), end in self.offsets.written(
            [p for each in known.values() for p in each.positions]
        ).items():
            found[topic][number] = end
        return found

    def _say(self, *, is_writing: bool) -> None:
        self._is_writing = is_writing
        self._said += 1
        for topic, ends in (self._ends or {}).items():
            file = _folder_of(self.folder, topic) / f"{quote(self.query, safe='')}.json"
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps({"number": self._said, "is_writing": is_writing, "ends": ends}))
            fresh.replace(file)


def whole_ends(folder: Path, topics: Iterable[str], ask: Callable[[], Offsets]) -> Mapping[Position, int]:
    """Return the ends that `ask` gives, but not beyond whole batches."""
    names, deadline = [*topics], time.monotonic() + _PATIENCE_S
    while True:
        said = _all_said(folder, names)
        ends = dict(ask())
        is_late = time.monotonic() > deadline
        if said == _all_said(folder, names) and (is_late or _shows(ends, said)):
            return _limited(ends, said)
        if not is_late:
            time.sleep(_LOOK_S)


class _Said(TypedDict):
    """What a query says of a batch: where it ends, and whether its records are being written."""

    ends: Mapping[str, int]
    is_writing: bool


def _shows(ends: Offsets, said: Mapping[str, list[_Said]]) -> bool:
    """Whether the ends reach to those of the batches that are whole."""
    return all(
        ends.get((topic, int(number)), end) >= end
        for topic, documents in said.items()
        for document in documents
        for number, end in document["ends"].items()
    )


def _limited(ends: Mapping[Position, int], said: Mapping[str, list[_Said]]) -> Mapping[Position, int]:
    limits = {
        topic: [document["ends"] for document in documents if document["is_writing"]]
        for topic, documents in said.items()
    }
    return {
        (topic, number): min([end, *(each.get(str(number), 0) for each in limits[topic])])
        for (topic, number), end in ends.items()
    }


def _all_said(folder: Path, topics: Iterable[str]) -> dict[str, list[_Said]]:
    return {
        topic: [json.loads(file.read_text()) for file in sorted(_folder_of(folder, topic).glob("*.json"))]
        for topic in topics
    }


def _folder_of(folder: Path, topic: str) -> Path:
    return folder / quote(topic, safe="")
