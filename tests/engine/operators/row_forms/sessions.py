"""The operator that aggregates in session windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, ClassVar

from kestrel_sql.operators import late_rows
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, new_group, result
from kestrel_sql.operators.operator import Key, KeyBytes, Scope, State, Value
from tests.engine.operators.row_forms.groups import add, merge, store
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator

Session = list[Any]
"""End and start (ms), group and key; the sessions of a key are sorted by end, then start."""

END, START, GROUP, KEY = 0, 1, 2, 3
"""The parts of a session."""

_GONE = "gone"
"""The part of a state with the ends, starts and keys of sessions that were replaced since `pack`."""

_SHORTEST_SEGMENT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindowAggregate(RowOperator):
    """Add each row to the session around it, merging the sessions that it connects; times are in ms (rules O8.2, O9).

    The end of a session is the timestamp of its last row. A result ends in the window bounds. With `final` a session is
    emitted once, when it closes; as in ksqlDB, it is lost if its store segment has expired by then.
    """

    scope: ClassVar[Scope] = Scope.TASK

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls
    gap_ms: int
    grace_ms: int
    retention_ms: int
    final: bool = False

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Emit tombstones of the merged sessions and the new session, or under FINAL the sessions that have closed."""
        if row.key is None or row.value is None:
            return []
        time: int = max(state.get("time", row.timestamp), row.timestamp)
        state["time"] = time
        close = time - self.grace_ms - self.gap_ms
        outputs = self.update(row, row.key, row.value, close, state)
        if not self.final:
            self.prune(state)
            return outputs
        return self.close(close, state)

    def update(self, row: Row, key: Key, value: Value, close: int, state: State) -> list[Output]:
        """Add a row to its session, unless that ended before `close` (ms); returns tombstones and the new session."""
        packed_key = self.key_bytes(key)
        sessions = state.setdefault("sessions", {}).get(packed_key, [])
        around = self._around(row.timestamp, sessions, state)
        merged = sessions[around]
        start = min([row.timestamp, *(session[START] for session in merged)])
        end = max([row.timestamp, *(session[END] for session in merged)])
        if end < close:
            late_rows.note(state, row.timestamp, (start, end), self.grace_ms, close + self.gap_ms + self.grace_ms)
            return []
        outputs: list[Output] = []
        if start != end and not self.final:
            outputs = [self._tombstone(key, session) for session in merged]
        group = new_group(self.columns, self.calls, end)
        for session in merged:
            merge(group, session[GROUP], self.calls)
        add(group, self.columns, self.calls, value, state)
        self.replace(packed_key, merged, [end, start, group, list(key)], state)
        outputs.append(Output(key, (*result(group, self.calls), start, end), end, window=(start, end)))
        store(group, self.calls)
        return outputs

    def close(self, close: int, state: State) -> list[Output]:
        """Remove and emit the sessions that ended before `close` (ms), which no row can join any more."""
        outputs = []
        segment = max(self.retention_ms // 2, _SHORTEST_SEGMENT_MS)
        ends = state.get("ends", [])
        while ends and ends[0][0] < close:
            session = _take(ends, state)
            if session is not None and session[END] // segment >= (state["newest"] - self.retention_ms) // segment:
                end, start = _bounds(session)
                value = (*result(session[GROUP], self.calls), start, end)
                outputs.append(Output(tuple(session[KEY]), value, end, window=(start, end)))
        return outputs

    def replace(self, packed_key: bytes, merged: Sequence[Session], session: Session, state: State) -> None:
        """Store a session of a key instead of those that it merges."""
        sessions = state["sessions"].setdefault(packed_key, [])
        bounds = _bounds(session)
        for each in merged:
            del sessions[bisect_left(sessions, _bounds(each), key=_bounds)]
            if _bounds(each) != bounds:
                state.setdefault(_GONE, []).append([*_bounds(each), packed_key])
        if not any(_bounds(each) == bounds for each in merged):
            heappush(state.setdefault("ends", []), [*bounds, packed_key])
        if _put(sessions, session):
            state.setdefault(_GONE, []).append([*bounds, packed_key])
        state["newest"] = max(state.get("newest", session[END]), session[END])

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

    def _around(self, timestamp: int, sessions: list[Session], state: State) -> slice:
        """Find the sessions within the gap that have not expired; such sessions of a key do not overlap."""
        earliest = max(timestamp - self.gap_ms, self._expired(state) + 1)
        first = bisect_left(sessions, earliest, key=lambda session: session[END])
        last = first
        while last < len(sessions) and sessions[last][START] <= timestamp + self.gap_ms:
            last += 1
        return slice(first, last)

    def _expired(self, state: State) -> int:
        """The latest end (ms) of a session that has expired: rows no longer join it."""
        newest: int = state.get("newest", 0)
        return newest - self.retention_ms

    def _tombstone(self, key: Key, session: Session) -> Output:
        end, start = _bounds(session)
        return Output(key, None, end, window=(start, end), old=(*result(session[GROUP], self.calls), start, end))

    def prune(self, state: State) -> None:
        """Delete the sessions whose retention is over."""
        ends = state.get("ends", [])
        while ends and ends[0][0] <= self._expired(state):
            _take(ends, state)


def _bounds(session: Session) -> tuple[int, int]:
    return session[END], session[START]


def _put(sessions: list[Session], session: Session) -> bool:
    """Insert the session in order; returns whether it replaces one with the same bounds.

    Such a session has expired but may wait for FINAL.
    """
    at = bisect_left(sessions, _bounds(session), key=_bounds)
    same = at < len(sessions) and _bounds(sessions[at]) == _bounds(session)
    sessions[at : at + 1 if same else at] = [session]
    return same


def _take(ends: list[Any], state: State) -> Session | None:
    """Pop the earliest end and remove its session; None if a merge has removed the session."""
    entry = heappop(ends)
    session = _session(entry, state)
    if session is not None:
        sessions = state["sessions"][entry[2]]
        del sessions[bisect_left(sessions, _bounds(session), key=_bounds)]
        if not sessions:
            del state["sessions"][entry[2]]
    return session


def _session(entry: list[Any], state: State) -> Session | None:
    """The session of an end, a start (ms) and a packed key."""
    end, start, packed_key = entry
    sessions: list[Session] = state["sessions"].get(packed_key, [])
    at = bisect_left(sessions, (end, start), key=_bounds)
    return sessions[at] if at < len(sessions) and _bounds(sessions[at]) == (end, start) else None
