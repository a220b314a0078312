"""Entries by key, the oldest first, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import msgpack
import msgspec

from kestrel_sql.kafka.shadow.written import Written

_IN_MEMORY = 50_000


class Entry(msgspec.Struct):
    """What is known of a key: what each side has written since they agreed, when that was (s), and on what."""

    since: float
    sides: tuple[list[Written], list[Written]] = msgspec.field(default_factory=lambda: ([], []))
    base: Written | None = None


class Shelf(msgspec.Struct):
    """Holds entries; where there are too many, the older half of them is put on disk."""

    most: int = _IN_MEMORY
    _near: dict[bytes, Entry] = {}
    _folder: TemporaryDirectory[str] | None = None
    _far: Any = None
    _far_count: int = 0

    def __len__(self) -> int:
        return len(self._near) + self._far_count

    def get(self, key: bytes) -> Entry | None:
        """Return the entry of a key, which is in memory afterwards."""
        found = self._near.get(key)
        if found is None and self._far_count:
            data = self._far.get(key)
            if data is not None:
                del self._far[key]
                self._far_count -= 1
                found = self._near[key] = _unpacked(data)
        return found

    def put(self, key: bytes, entry: Entry) -> None:
        """Put an entry behind all others; one that is there already is moved."""
        self._near.pop(key, None)
        self._near[key] = entry
        if len(self._near) > self.most:
            self._put_away()

    def remove(self, key: bytes) -> None:
        """Remove an entry that is in memory."""
        del self._near[key]

    def since(self) -> float:
        """Since when (s) the oldest entry is there, for ever if there is one on disk; infinity without an entry."""
        if self._far_count:
            return float("-inf")
        return next((entry.since for entry in self._near.values()), float("inf"))

    def near(self) -> Iterator[tuple[bytes, Entry]]:
        """The entries in memory, the oldest first."""
        return iter(self._near.items())

    def items(self) -> Iterator[tuple[bytes, Entry]]:
        """All entries."""
        if self._far_count:
            for key, data in self._far.items():
                yield key, _unpacked(data)
        yield from list(self._near.items())

    def recall(self) -> None:
        """Bring entries back from disk where there is room for them again."""
        room = self.most // 2 - len(self._near)
        if self._far_count and room > 0:
            back = {key: _unpacked(data) for key, data in islice(self._far.items(), room)}
            self._near = {**dict(sorted(back.items(), key=lambda each: each[1].since)), **self._near}
            for key in back:
                del self._far[key]
            self._far_count -= len(back)

    def close(self) -> None:
        """Delete what is on disk."""
        if self._folder is not None:
            self._far.close()
            self._folder.cleanup()

    def _put_away(self) -> None:
        # It takes a while to load, and is not needed for most comparisons.
        from rocksdict import Options, Rdict, WriteBatch

        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="kestrel-shadow-")
            self._far = Rdict(self._folder.name, Options(raw_mode=True))
        batch = WriteBatch(raw_mode=True)
        old = list(islice(self._near.items(), len(self._near) // 2))
        for key, entry in old:
            batch.put(key, _packed(entry))
            del self._near[key]
        self._far.write(batch)
        self._far_count += len(old)


def _packed(entry: Entry) -> bytes:
    parts = [[_parts(each) for each in side] for side in entry.sides]
    packed: bytes = msgpack.packb([entry.since, *parts, None if entry.base is None else _parts(entry.base)])
    return packed


def _parts(each: Written) -> list[object]:
    return [each.side, each.content, each.key, each.value, each.partition, each.offset, each.arrived]


def _unpacked(data: bytes) -> Entry:
    since, left, right, base = msgpack.unpackb(data, use_list=False)
    sides = [Written(*each) for each in left], [Written(*each) for each in right]
    return Entry(since, sides, None if base is None else Written(*base))
