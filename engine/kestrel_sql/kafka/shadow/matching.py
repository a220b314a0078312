"""Compares a sink key by key: the records of a stream in order, the last value of each key of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice

import msgspec

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.kafka.shadow.shelf import Entry, Shelf
from kestrel_sql.kafka.shadow.written import Column, Reader, Written, differing, exact, kind_of

SIDES = ("left", "right")
_DISPUTE = 64
"""How many records of a key both sides may have, of which the first ones differ, before they are aligned."""

_LOOKED_AT = 1_000
"""Among how many changes of a key one of the other side is looked for."""

_TRIES = 1_000
"""How often records with different bytes are decoded to see whether they are equal all the same."""

_RECENT = 50_000
_HELD_S = 2.0
"""How long a record that only one side has waits for one of another key that is the same otherwise."""

_JUDGED = 10_000
_NEVER = float("-inf")


class Difference(msgspec.Struct, frozen=True):
    """What differs between the sides; one of them may have no record."""

    kind: str
    sink: Source
    readers: tuple[Reader, Reader]
    records: tuple[Written | None, Written | None]
    columns: tuple[Column, ...] = ()

    @property
    def record(self) -> Written:
        """The record of the left side, or else of the right one."""
        return next(each for each in self.records if each is not None)


@dataclass(slots=True, kw_only=True)
class Matcher(ABC):
    """Compares what two sides write for a sink; `report` is told what differs.

    `patience` (s) is how long one side may be behind the other one. With `by_time` timestamps and headers count, with
    `by_place` partitions do, with `by_order` the order of the records of a key does.
    """

    sink: Source
    readers: tuple[Reader, Reader]
    report: Callable[[Difference], None]
    patience: float
    by_time: bool = True
    by_place: bool = True
    by_order: bool = True
    matched: int = 0
    waiting: list[int] = field(default_factory=lambda: [0, 0])
    """How many records each side has written that the other one has not, so far."""
    open: Shelf = field(default_factory=Shelf)
    _late: list[float] = field(default_factory=lambda: [_NEVER, _NEVER])
    """When each side last wrote what the other one had waited for through half of the patience."""
    _alone: list[tuple[Written, float]] = field(default_factory=list)
    """What only one side has, and since when (s) that is certain."""
    _by_form: bool = False
    _tries: int = _TRIES

    @abstractmethod
    def take(self, written: Written) -> None:
        """Take a record in."""

    def judge(self, reached: Sequence[float], now: float) -> None:
        """Report what was waited for in vain; `reached` says up to when (s) all that a side had written was read."""
        self.open.recall()
        for identity, entry in [*islice(self._due(reached, now), _JUDGED)]:
            self._settle(identity, entry, now, now - self.patience)
        self._release(now)

    def end(self) -> None:
        """Report what still waits for its like under another key."""
        self._release(float("inf"))

    def waits_since(self, passed: float) -> bool:
        """Whether one side still waits for something since before a time (s)."""
        return self.open.since() <= passed

    def unanswered(self) -> Iterator[Written]:
        """What one side has written and the other one has not, so far."""
        return (each for _, entry in self.open.items() for side in entry.sides for each in side)

    def close(self) -> None:
        """Delete what is on disk."""
        self.open.close()

    @abstractmethod
    def _settle(self, identity: bytes, entry: Entry, now: float, before: float) -> None:
        """Report how the sides differ in a key; what arrived after `before` (s) may still be answered."""

    def _due(self, reached: Sequence[float], now: float) -> Iterator[tuple[bytes, Entry]]:
        for identity, entry in self.open.near():
            if entry.since + self.patience > now:
                return
            awaited = [1 - side for side in (0, 1) if entry.sides[side]]
            # A side that works off what it is behind with still writes what is due.
            if all(min(reached[each] - entry.since, now - self._late[each]) >= self.patience for each in awaited):
                yield identity, entry

    def _note_late(self, side: int, entry: Entry, now: float) -> None:
        if now - entry.since > self.patience / 2:
            self._late[side] = now

    def _key(self, written: Written) -> bytes | None:
        return None if written.key is None else self.readers[written.side].identity(written.key)

    def _identity(self, written: Written) -> bytes:
        """What is compared in its order: the records of a key, or equal records where their order is open."""
        key = self._key(written)
        if self.by_order and key is not None:
            return key
        return repr((key, written.content)).encode("utf-8", "surrogatepass")

    def _same(self, one: Written, other: Written) -> bool:
        if one.content == other.content or (not self.by_time and one.content[0] == other.content[0]):
            return True
        if not self._by_form:
            if not self._tries:
                return False
            self._tries -= 1
        return self._same_form(one, other)

    def _same_form(self, one: Written, other: Written) -> bool:
        is_same = self._form(one) == self._form(other)
        self._by_form = self._by_form or is_same
        return is_same

    def _form(self, written: Written) -> Hashable:
        if written.form is None:
            value = exact(self.readers[written.side].value(written.value))
            written.form = (value, *written.content[1:]) if self.by_time else (value,)
        return written.form

    def _values(self, left: Written, right: Written) -> Iterator[Column]:
        values = [self.readers[each.side].value(each.value) for each in (left, right)]
        return differing(values[0], values[1], "value")

    def _around(self, left: Written, right: Written) -> Iterator[Column]:
        if self.by_time:
            yield from differing(left.content[1], right.content[1], "timestamp")
            yield from differing(left.content[2], right.content[2], "headers")

    def _agree(self, one: Written, other: Written) -> None:
        self.matched += 1
        left, right = (one, other) if one.side == 0 else (other, one)
        self._report_columns(left, right, [*self._place(left, right)])

    def _place(self, left: Written, right: Written) -> Iterator[Column]:
        if self.by_place and left.key is not None and left.partition != right.partition:
            yield Column("partition", left.partition, right.partition)

    def _report_columns(self, left: Written, right: Written, columns: Sequence[Column]) -> None:
        if columns:
            self.report(Difference(kind_of(columns), self.sink, self.readers, (left, right), tuple(columns)))

    def _release(self, now: float) -> None:
        """Pair records that only one side has, as far as they have a key or all but the key in common."""
        if not self._alone or self._alone[0][1] + _HELD_S > now:
            return
        alone = [each for each, _ in self._alone]
        self._alone.clear()
        for like in (self._key_and_form, self._key_and_time, self._form):
            found: dict[Hashable, list[Written]] = {}
            for each in alone:
                others = found.setdefault(like(each), [])
                if others and others[-1].side != each.side:
                    self._pair(*sorted((each, others.pop()), key=lambda each: each.side))
                else:
                    others.append(each)
            alone = [each for others in found.values() for each in others]
        for each in alone:
            self._report_alone(each)

    def _key_and_form(self, written: Written) -> Hashable:
        return self._key(written), self._form(written)

    def _key_and_time(self, written: Written) -> Hashable:
        return self._key(written), written.content[1]

    def _pair(self, left: Written, right: Written) -> None:
        columns = [*self._values(left, right), *self._around(left, right)]
        keys = [self.readers[each.side].key(each.key) for each in (left, right)]
        if exact(keys[0]) != exact(keys[1]):
            name = "window" if exact(keys[0][0]) == exact(keys[1][0]) else "key"
            columns.insert(0, Column(name, *(key[name == "window"] for key in keys)))
        self._report_columns(left, right, columns)
        self.matched += not columns

    def _report_alone(self, written: Written) -> None:
        self._report_one(written, "only")

    def _report_one(self, written: Written, kind: str) -> None:
        records = (written, None) if written.side == 0 else (None, written)
        self.report(Difference(f"{kind} {SIDES[written.side]}", self.sink, self.readers, records))


@dataclass(slots=True, kw_only=True)
class StreamMatcher(Matcher):
    """Compares the records of each key in their order."""

    _recent: set[int] = field(default_factory=set)
    _before: set[int] = field(default_factory=set)

    def take(self, written: Written) -> None:
        """Take a record in, and compare it if the other side has written so far."""
        identity = self._identity(written)
        entry = self.open.get(identity)
        side = written.side
        self.waiting[side] += 1
        if entry is None:
            entry = Entry(written.arrived)
            entry.sides[side].append(written)
            self.open.put(identity, entry)
            return
        entry.sides[side].append(written)
        left, right = entry.sides
        if not (left and right):
            return
        same = 0
        while same < len(left) and same < len(right) and self._same(left[same], right[same]):
            self._match(identity, left[same], right[same])
            same += 1
        if same:
            del left[:same], right[:same]
            self._note_late(side, entry, written.arrived)
            self._keep(identity, entry, written.arrived)
        elif len(left) >= _DISPUTE <= len(right):
            self._settle(identity, entry, written.arrived, _NEVER)

    def _match(self, identity: bytes, left: Written, right: Written) -> None:
        self.waiting[0] -= 1
        self.waiting[1] -= 1
        self._agree(left, right)
        if len(self._recent) > _RECENT:
            self._before, self._recent = self._recent, set()
        self._recent.add(hash((identity, left.content)))

    def _keep(self, identity: bytes, entry: Entry, since: float) -> None:
        if any(entry.sides):
            entry.since = since
            self.open.put(identity, entry)
        else:
            self.open.remove(identity)

    def _settle(self, identity: bytes, entry: Entry, now: float, before: float) -> None:
        counts = [len(side) for side in entry.sides]
        left, right = ([self._form(each) for each in side] for side in entry.sides)
        opcodes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
        blocks: list[tuple[list[Written], list[Written]]] = []
        for tag, first, last, first_right, last_right in opcodes:
            parts = entry.sides[0][first:last], entry.sides[1][first_right:last_right]
            if tag != "equal":
                blocks.append(parts)
                continue
            self._by_form = True
            counts = [count - len(parts[0]) for count in counts]
            for pair in zip(*parts, strict=True):
                self._match(identity, *pair)
        self._report_moved(blocks)
        left_over: tuple[list[Written], list[Written]] = ([], [])
        for block in blocks:
            for pair in zip(*block, strict=False):
                self._pair(*pair)
            is_last = block is blocks[-1] and opcodes[-1][0] != "equal"
            for side, part in enumerate(block):
                for each in part[min(map(len, block)) :]:
                    if is_last and each.arrived > before:
                        left_over[side].append(each)
                    else:
                        self._alone.append((each, now))
        for side in (0, 1):
            self.waiting[side] -= counts[side] - len(left_over[side])
            entry.sides[side][:] = left_over[side]
        self._keep(identity, entry, min((each.arrived for side in left_over for each in side), default=0.0))

    def _report_moved(self, blocks: Sequence[tuple[list[Written], list[Written]]]) -> None:
        """Report the records that stand elsewhere on the other side, and take them out of the blocks."""
        for lefts, left in [(block[0], each) for block in blocks for each in block[0]]:
            for rights, right in [(block[1], each) for block in blocks for each in block[1]]:
                if self._form(left) == self._form(right):
                    lefts.remove(left)
                    rights.remove(right)
                    place = tuple(self._place(left, right))
                    self.report(Difference(kind_of(place) or "order", self.sink, self.readers, (left, right), place))
                    break

    def _report_alone(self, written: Written) -> None:
        known = hash((self._identity(written), written.content))
        self._report_one(written, "twice" if known in self._recent or known in self._before else "only")


@dataclass(slots=True, kw_only=True)
class TableMatcher(Matcher):
    """Compares the last value of each key: how many intermediate results a side writes is its own affair."""

    settled: Shelf = field(default_factory=Shelf)

    def take(self, written: Written) -> None:
        """Take a change in; the sides agree when one of them writes what is one of the last values of the other."""
        identity = self._identity(written)
        side = written.side
        entry = self.open.get(identity)
        if entry is None:
            entry = self.settled.get(identity) or Entry(written.arrived)
            if entry.base is not None:
                self.settled.remove(identity)
            entry.since = written.arrived
            self.open.put(identity, entry)
        own, other = entry.sides[side], entry.sides[1 - side]
        at = next((at for at, each in enumerate(islice(other, _LOOKED_AT)) if self._are_equal(each, written)), None)
        if at is None and (other or not self._are_equal(entry.base, written)):
            own.append(written)
            self.waiting[side] += 1
            return
        if at is not None:
            self._agree(written, other[at])
            self._note_late(side, entry, written.arrived)
            self.waiting[1 - side] -= at + 1
            del other[: at + 1]
        self.waiting[side] -= len(own)
        own.clear()
        self._agreed(identity, entry, written)

    def _agreed(self, identity: bytes, entry: Entry, base: Written) -> None:
        entry.base, entry.since = base, base.arrived
        if any(entry.sides):
            self.open.put(identity, entry)
        else:
            self.open.remove(identity)
            self.settled.put(identity, entry)

    def _are_equal(self, one: Written | None, other: Written) -> bool:
        """Whether two values are equal; a key that was deleted is one that was never there."""
        if one is None or one.value is None or other.value is None:
            return other.value is None and (one is None or one.value is None)
        return self._same(one, other)

    def _settle(self, identity: bytes, entry: Entry, now: float, before: float) -> None:
        left, right = (side[-1] if side else entry.base for side in entry.sides)
        last = max((each for each in (left, right) if each is not None), key=lambda each: each.arrived)
        if left is None or right is None:
            if last.value is not None:
                self._alone.append((last, now))
        elif (left.value is None) != (right.value is None) or (last.value and not self._same_form(left, right)):
            # Other changes have other timestamps.
            self._report_columns(left, right, [*self._values(left, right)] or [*self._around(left, right)])
        for side in (0, 1):
            self.waiting[side] -= len(entry.sides[side])
            entry.sides[side].clear()
        self._agreed(identity, entry, last)

    def close(self) -> None:
        """Delete what is on disk."""
        super(TableMatcher, self).close()
        self.settled.close()
