"""The operator that aggregates in session windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

import msgspec

from kestrel_sql.operators import late_rows
from kestrel_sql.operators.aggregates.folding import Folding, usable_rows
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, result
from kestrel_sql.operators.group_state import TIMESTAMP
from kestrel_sql.operators.operator import Batch, KeyBytes, Ref, Results, Scope, State, StateEntry, Window

Session = list[Any]
"""End and start (ms), group and key; the sessions of a key are sorted by end, then start.

While a batch is processed, a session that it changes has the number of its group, and a row of the batch with its key.
"""

END, START, GROUP, KEY = 0, 1, 2, 3
"""The parts of a session."""

_GONE = "gone"
"""The part of a state with the ends, starts and keys of sessions that were replaced since `pack`."""

_SHORTEST_SEGMENT_MS = 60_000


class SessionWindowAggregate(msgspec.Struct, frozen=True, kw_only=True):
    """Add each row to the session around it, merging the sessions that it connects; times are in ms (rules O8.2, O9).

    The end of a session is the timestamp of its last row. A result ends in the window bounds. With `final` a session is
    emitted once, when it closes; as in ksqlDB, it is lost if its store segment has expired by then.
    """

    scope: ClassVar[Scope] = Scope.TASK
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls
    gap_ms: int
    grace_ms: int
    retention_ms: int
    final: bool = False

    @property
    def drops_headers(self) -> bool:
        """Whether results have no headers: as in Kafka Streams, sessions pass them on with FINAL only (rule O0.1)."""
        return not self.final

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Emit tombstones of the merged sessions and the new session, or under FINAL the sessions that have closed."""
        at, names, owners = usable_rows(rows, self.key_bytes)
        if not at:
            return
        try:
            yield from _Sessions(self, rows, state).process(at, [names[owner] for owner in owners])
        finally:
            self.pack(state)

    def prune(self, state: State) -> None:
        """Delete the sessions whose retention is over."""
        ends = state.get("ends", [])
        while ends and ends[0][0] <= self.expired(state):
            entry = heappop(ends)
            session = _session(entry, state)
            if session is not None:
                _remove(session, entry[2], state)

    def expired(self, state: State) -> int:
        """The latest end (ms) of a session that has expired: rows no longer join it (rule O8.8)."""
        newest: int = state.get("newest", 0)
        return newest - self.retention_ms

    def pack(self, state: State) -> None:
        """Sort a state by key and end, so that its bytes do not tell in which order sessions came and went."""
        gone = state.pop(_GONE, [])
        if "ends" not in state:
            return
        ends = sorted(state["ends"])
        kept, start = [], 0
        for each in sorted(gone):
            first = bisect_left(ends, each)
            if first < start:
                continue
            kept += ends[start:first]
            start = bisect_right(ends, each)
            if start > first and _session(each, state) is not None:
                kept.append(each)
        state["ends"] = kept + ends[start:]
        state["sessions"] = dict(sorted(state["sessions"].items()))
        for name in ("time", "newest", "sessions", "ends"):
            state[name] = state.pop(name)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the result of each session."""
        for key, sessions in state.get("sessions", {}).items():
            for session in sessions:
                start, end = session[START], session[END]
                value = (*result(session[GROUP], self.calls), start, end)
                yield StateEntry(part="sessions", key=key, value=value, window=(start, end), timestamp=end)


@dataclass(slots=True)
class _Sessions:
    """The sessions while rows are processed.

    Attributes:
        operator: the aggregate.
        rows: the rows of the batch.
        state: its state.
        folding: the groups that the rows change.
        last: the latest result of each group.
        changed: the sessions that rows have changed, and their keys.
        found: causes, keys, results (of FINAL: groups), results that they replace, and windows of outputs.
    """

    operator: SessionWindowAggregate
    rows: Batch
    state: State
    folding: Folding = field(init=False)
    last: list[int] = field(default_factory=list)
    changed: dict[int, tuple[bytes, Session]] = field(default_factory=dict)
    found: list[tuple[int, Ref, int | None, int | None, Window]] = field(default_factory=list)
    _refs: list[int] = field(default_factory=list)
    _slots: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _open: list[Any] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.folding = Folding(self.operator.columns, self.operator.calls, self.rows)

    def process(self, at: Sequence[int], keys: Sequence[bytes]) -> Iterator[Results]:
        """Process rows that have a key and a value."""
        operator, state, times, folding = self.operator, self.state, self.rows.times, self.folding
        sessions, now = state.setdefault("sessions", {}), state.get("time")
        for row, key in zip(at, keys, strict=True):
            time = times[row]
            if now is None or time > now:
                now = state["time"] = time
            closed = now - operator.grace_ms - operator.gap_ms
            self._add(row, key, time, closed, self._around(time, sessions.get(key)))
            if operator.final:
                self._close(row, closed)
        folding.refs, folding.slots, folding.times = self._refs, self._slots, self._ends
        folding.latest = [0] * len(self.last)
        folding.fold(state, results=not operator.final, before=not operator.final)
        self._store()
        yield from folding.checked(self._final() if operator.final else self._changes())

    def _add(self, row: int, key: bytes, time: int, closed: int, merged: Sequence[Session]) -> None:
        """Add a row to the session that merges those around it, unless that ended before `closed` (ms)."""
        operator, state = self.operator, self.state
        start, end = time, time
        for session in merged:
            if session[START] < start:
                start = session[START]
            if session[END] > end:
                end = session[END]
        if end < closed:
            late_rows.note(state, time, (start, end), operator.grace_ms, closed + operator.gap_ms + operator.grace_ms)
            late_rows.note_row(state, row)
            return
        slots = [self._slot(session, key) for session in merged]
        if start != end and not operator.final:
            for session, slot in zip(merged, slots, strict=True):
                self.found.append((row, row, None, self.last[slot], (session[START], session[END])))
        if len(merged) == 1:
            (session,), (slot,) = merged, slots
            if start < session[START]:
                self._wait(start, end, key, session)
            session[:] = end, start, slot, row
        else:
            slot = self.folding.merged(slots) if slots else self.folding.group(None)
            self.last.append(~slot)
            session = [end, start, slot, row]
            self._replace(merged, session, key)
            self._wait(start, end, key, session)
        self.last[slot] = len(self._refs)
        self._refs.append(row)
        self._slots.append(slot)
        self._ends.append(end)
        state["newest"] = max(state.get("newest", end), end)
        if not operator.final:
            self.found.append((row, row, self.last[slot], None, (start, end)))

    def _around(self, time: int, sessions: Sequence[Session] | None) -> Sequence[Session]:
        """Find the sessions within the gap that have not expired; such sessions of a key do not overlap."""
        if not sessions:
            return ()
        gap = self.operator.gap_ms
        earliest = max(time - gap, self.operator.expired(self.state) + 1)
        latest = sessions[-1]
        if latest[END] < earliest:
            return ()
        if latest[START] <= time + gap and (len(sessions) == 1 or sessions[-2][END] < earliest):
            return (latest,)
        first = last = bisect_left(sessions, earliest, key=_end)
        while last < len(sessions) and sessions[last][START] <= time + gap:
            last += 1
        return sessions[first:last]

    def _slot(self, session: Session, key: bytes) -> int:
        """The number of the group of a session, which rows change from now on."""
        slot: int | Any = session[GROUP]
        if isinstance(slot, int):
            return slot
        self.state.setdefault(_GONE, []).append([*_bounds(session), key])
        found = session[GROUP] = self.folding.group(slot)
        self.last.append(~found)
        self.changed[id(session)] = key, session
        self._wait(session[START], session[END], key, session)
        return found

    def _replace(self, merged: Sequence[Session], session: Session, key: bytes) -> None:
        """Put a session in the place of those that it merges, and of one with its bounds, which has expired."""
        sessions = self.state["sessions"].setdefault(key, [])
        for each in merged:
            del sessions[bisect_left(sessions, _bounds(each), key=_bounds)]
            self._forget(each)
        at = bisect_left(sessions, _bounds(session), key=_bounds)
        if at < len(sessions) and _bounds(sessions[at]) == _bounds(session):
            self._slot(sessions[at], key)
            self._forget(sessions[at])
            del sessions[at]
        sessions.insert(at, session)
        self.changed[id(session)] = key, session

    def _forget(self, session: Session) -> None:
        del self.changed[id(session)]
        session[GROUP] = None

    def _wait(self, start: int, end: int, key: bytes, session: Session) -> None:
        """Let a changed session wait for its end (ms) under FINAL; one that has grown since then waits again."""
        if self.operator.final:
            heappush(self._open, (end, start, key, next(self._numbers), session))

    def _close(self, row: int, closed: int) -> None:
        """Remove and emit the sessions that ended before `closed` (ms), which no row can join any more."""
        operator, state, waiting = self.operator, self.state, self._open
        segment = max(operator.retention_ms // 2, _SHORTEST_SEGMENT_MS)
        ends = state.get("ends", [])
        while True:
            stored = ends[0] if ends and ends[0][0] < closed else None
            if waiting and waiting[0][0] < closed and (stored is None or [*waiting[0][:3]] <= stored):
                end, start, key, _, session = heappop(waiting)
                if session[GROUP] is None or session[START] != start:
                    continue
                if session[END] != end:
                    self._wait(start, session[END], key, session)
                    continue
            elif stored is not None:
                _, _, key = heappop(ends)
                found = _session(stored, state)
                if found is None or id(found) in self.changed:
                    continue
                session = found
            else:
                return
            slot = self._slot(session, key)
            if session[END] // segment >= (state["newest"] - operator.retention_ms) // segment:
                self.found.append((row, session[KEY], slot, None, (session[START], session[END])))
            _remove(session, key, state)
            self._forget(session)

    def _store(self) -> None:
        """Put groups and keys into the sessions that rows have changed."""
        state, changed = self.state, [*self.changed.values()]
        if self._refs:
            state.setdefault("ends", [])
        groups = self.folding.groups([session[GROUP] for _, session in changed])
        fresh = [session for _, session in changed if isinstance(session[KEY], int)]
        keys = self.rows.keys_at([session[KEY] for session in fresh])
        for session, values in zip(fresh, keys, strict=True):
            session[KEY] = values
        for (key, session), group in zip(changed, groups, strict=True):
            group[TIMESTAMP] = session[END]
            session[GROUP] = group
            state["ends"].append([*_bounds(session), key])
        if changed:
            state["ends"].sort()
        if not self.operator.final:
            self.operator.prune(state)

    def _changes(self) -> Results:
        """The new sessions, and tombstones of those that they replace."""
        causes, _, now, before, bounds = self._columns()
        results = self.folding.results(causes, [end for _, end in bounds], now, before, shared=False)
        return _bounded(results, bounds)

    def _final(self) -> Results:
        """The results of sessions that rows close."""
        causes, keys, slots, _, bounds = self._columns()
        results = self.folding.last(causes, slots)
        results.times, results.keys = [end for _, end in bounds], keys
        return _bounded(results, bounds)

    def _columns(self) -> Sequence[list[Any]]:
        return [*map(list, zip(*self.found, strict=True))] or [[], [], [], [], []]


def _bounded(results: Results, bounds: Sequence[Window]) -> Results:
    """Give outputs their windows, which are also the last columns of results."""
    results.windows = [*bounds]
    columns = [[start for start, _ in bounds], [end for _, end in bounds]]
    results.own = [*results.own, *columns]
    results.old_own = [*results.old_own, *columns]
    return results


def _bounds(session: Session) -> tuple[int, int]:
    return session[END], session[START]


def _end(session: Session) -> int:
    end: int = session[END]
    return end


def _remove(session: Session, key: bytes, state: State) -> None:
    """Remove a session of a key."""
    sessions = state["sessions"][key]
    del sessions[bisect_left(sessions, _bounds(session), key=_bounds)]
    if not sessions:
        del state["sessions"][key]


def _session(entry: list[object], state: State) -> Session | None:
    """The session of an end, a start (ms) and a packed key."""
    end, start, packed_key = entry
    sessions: list[Session] = state["sessions"].get(packed_key, [])
    at = bisect_left(sessions, (end, start), key=_bounds)
    return sessions[at] if at < len(sessions) and _bounds(sessions[at]) == (end, start) else None
