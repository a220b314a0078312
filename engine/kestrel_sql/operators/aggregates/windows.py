"""The operator that aggregates in tumbling and hopping windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, ClassVar

import msgspec

from kestrel_sql.operators import late_rows
from kestrel_sql.operators.aggregates.folding import Folding, usable_rows
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, result
from kestrel_sql.operators.group_state import TIMESTAMP, Group
from kestrel_sql.operators.operator import Batch, KeyBytes, Ref, Results, Scope, State, StateEntry
from kestrel_sql.operators.state_codec import load_state, pack_state

MOST_ENTRIES = 1 << 18
"""Roughly the most results in memory at once: a row gives one for each window that it falls in, maybe thousands."""

_KEY = 3


class TimeWindowAggregate(msgspec.Struct, frozen=True, kw_only=True):
    """Add each row to the windows that it falls in; all times are in ms (rules O8.1, O9).

    A tumbling window is a hopping window that advances by its size. A result ends in the window bounds. With `final` a
    window is emitted once, when it closes. Without a cache in front of the store, as in ksqlDB, it is lost if it then
    starts more than `retention_ms` before the newest window (rule O9.4).
    """

    scope: ClassVar[Scope] = Scope.TASK
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls
    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int
    final: bool = False
    has_cache: bool = True
    with_old: bool = True
    """Whether a later step reads the replaced results."""

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Update the open windows of the rows, then delete expired windows; FINAL emits the windows that closed."""
        at, names, owners = usable_rows(rows, self.key_bytes)
        keys = [names[owner] for owner in owners]
        most = max(1, MOST_ENTRIES * self.advance_ms // self.size_ms)
        try:
            for start in range(0, len(at), most):
                part = slice(start, start + most)
                # A range stands for all rows.
                own = at if len(at) <= most else [*at[part]]
                yield from _Windows(self, rows, state).process(own, keys[part])
        finally:
            self.pack(state)

    def forget(self, state: State) -> None:
        """Delete the windows whose retention is over."""
        starts = state.get("starts", [])
        while starts and starts[0] < state["newest"] - self.retention_ms:
            del state["windows"][heappop(starts)]

    def pack(self, state: State) -> None:
        """Pack the windows that rows have changed, so that windows without new rows stay encoded.

        A sorted list is also a heap; so the state's bytes do not tell in which order windows came and went.
        """
        windows = state.get("windows", {})
        for start, groups in windows.items():
            if not isinstance(groups, bytes):
                windows[start] = pack_state(groups)
        if "starts" in state:
            state["starts"].sort()

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the result of each group of a window."""
        for start, groups in state.get("windows", {}).items():
            bounds = (start, start + self.size_ms)
            for key, group in unpacked(groups).items():
                value = result(group, self.calls) + bounds
                yield StateEntry(part="windows", key=key, value=value, window=bounds, timestamp=group[TIMESTAMP])


@dataclass(slots=True)
class _Windows:
    """The windows while rows are processed.

    Attributes:
        operator: the aggregate.
        rows: the rows of the batch.
        state: its state.
        folding: the groups that the rows change.
        starts: the starts of its windows (ms), a heap.
        places: the window and key of each of them, and the row that has the key.
        slots: their numbers by window and key.
        stored: the groups of open windows as they were before.
        closed: the groups of windows that rows close, by the index of the row, window and key.
    """

    operator: TimeWindowAggregate
    rows: Batch
    state: State
    folding: Folding = field(init=False)
    starts: list[int] = field(init=False)
    places: list[tuple[int, bytes, Ref]] = field(default_factory=list)
    slots: dict[int, dict[bytes, int]] = field(default_factory=dict)
    stored: dict[int, dict[bytes, Group]] = field(default_factory=dict)
    closed: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folding = Folding(self.operator.columns, self.operator.calls, self.rows)
        self.starts = self.state.get("starts", [])

    def process(self, at: Sequence[int], keys: Sequence[bytes]) -> Iterator[Results]:
        """Process rows that have a key and a value."""
        operator, state, folding = self.operator, self.state, self.folding
        starts = self._enter(at, keys)
        if not operator.final:
            # No later row of the batch reaches an expired window, so deleting them once at the end is enough.
            operator.forget(state)
        folding.fold(state, results=not operator.final, before=operator.with_old and not operator.final)
        self._store()
        yield from folding.checked(self._final() if operator.final else self._changes(starts))

    def _enter(self, at: Sequence[int], keys: Sequence[bytes]) -> list[int]:
        """Say which groups the rows change; returns the start of the window of each entry (ms)."""
        operator, state, times, slots = self.operator, self.state, self.rows.times, self.slots
        size, grace, advance = operator.size_ms, operator.grace_ms, operator.advance_ms
        refs, own, starts = list[int](), list[int](), list[int]()
        now, final = state.get("time"), operator.final
        for row, key in zip(at, keys, strict=True):
            time = times[row]
            if now is None or time > now:
                now = state["time"] = time
            close = now - grace
            first = (time - size + advance) // advance * advance
            if first < 0:
                first = 0
            if first + size <= close and first <= time:
                late_rows.note(state, time, (first, first + size), grace, now)
                late_rows.note_row(state, row)
            for start in range(first, time + 1, advance):
                if start + size > close:
                    window = slots.get(start)
                    if window is None:
                        window = self._open(start)
                    slot = window.get(key)
                    if slot is None:
                        slot = window[key] = self._group(start, key, row)
                    refs.append(row)
                    own.append(slot)
                    starts.append(start)
            if final and self.starts and self.starts[0] <= close - size:
                self._close(row, close - size)
        # Most rows of a tumbling window have one entry each, and columns of all rows need no indices.
        self.folding.refs = at if advance >= size and len(refs) == len(at) else refs
        self.folding.slots = own
        return starts

    def _open(self, start: int) -> dict[bytes, int]:
        """The numbers of the groups of a window (ms)."""
        state = self.state
        windows = state.setdefault("windows", {})
        if start not in windows:
            windows[start] = {}
            self.starts = state.setdefault("starts", [])
            heappush(self.starts, start)
            state["newest"] = max(state.get("newest", start), start)
        self.stored[start] = unpacked(windows[start])
        found = self.slots[start] = {}
        return found

    def _group(self, start: int, key: bytes, row: int) -> int:
        """Number the group of a window and key, whose key is that of a row if it is new."""
        stored = self.stored[start].get(key)
        self.places.append((start, key, row if stored is None else stored[_KEY]))
        return self.folding.group(stored)

    def _close(self, row: int, last_start: int) -> None:
        """Delete and emit the windows that start at `last_start` (ms) or before."""
        state, operator, starts = self.state, self.operator, self.starts
        while starts and starts[0] <= last_start:
            start = heappop(starts)
            if operator.has_cache or start >= state["newest"] - operator.retention_ms:
                slots = self.slots.get(start)
                if slots is None:
                    slots = self._open(start)
                for key in sorted(slots.keys() | self.stored[start].keys()):
                    slot = slots.get(key)
                    self.closed.append((row, start, self._group(start, key, row) if slot is None else slot))
            del state["windows"][start]

    def _store(self) -> None:
        """Put the groups of windows that are still open into the state."""
        windows = self.state.get("windows", {})
        kept = [slot for slot, place in enumerate(self.places) if place[0] in windows]
        places = [self.places[slot] for slot in kept]
        fresh = iter(self.rows.keys_at([key for _, _, key in places if isinstance(key, int)]))
        for (start, name, key), group in zip(places, self.folding.groups(kept), strict=True):
            group.append(next(fresh) if isinstance(key, int) else key)
            self.stored[start][name] = group
        for start, groups in self.stored.items():
            if start in windows:
                windows[start] = groups

    def _changes(self, starts: Sequence[int]) -> Results:
        """The result of each entry, and that which it replaces."""
        folding, operator = self.folding, self.operator
        before = folding.previous() if operator.with_old else None
        results = folding.results(folding.refs, folding.times, range(len(starts)), before)
        return self._bounded(results, starts)

    def _final(self) -> Results:
        """The results of windows that rows close, ordered by window, then key."""
        slots = [slot for _, _, slot in self.closed]
        results = self.folding.last([row for row, _, _ in self.closed], slots)
        results.keys = [self.places[slot][-1] for slot in slots]
        return self._bounded(results, [start for _, start, _ in self.closed])

    def _bounded(self, results: Results, starts: Sequence[int]) -> Results:
        size = self.operator.size_ms
        bounds: list[list[int]] = [[*starts], [start + size for start in starts]]
        results.windows = [*zip(*bounds, strict=True)]
        results.own = [*results.own, *bounds]
        if results.old:
            results.old_own = [*results.old_own, *bounds]
        return results


def unpacked(groups: dict[bytes, Group] | bytes) -> dict[bytes, Group]:
    """Return the groups of a window, which a state may hold packed."""
    if not isinstance(groups, bytes):
        return groups
    state: Any = load_state(groups)
    loaded: dict[bytes, Group] = state
    return loaded
