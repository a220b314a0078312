"""The operator that aggregates in tumbling and hopping windows."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

from kestrel_sql.operators import late_rows
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, new_group, result
from kestrel_sql.operators.aggregates.windows import unpacked
from kestrel_sql.operators.group_state import TIMESTAMP, Group
from kestrel_sql.operators.operator import Key, KeyBytes, Scope, State, Value
from kestrel_sql.operators.state_codec import pack_state
from tests.engine.operators.row_forms.groups import add, store, with_shared
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator

_KEY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindowAggregate(RowOperator):
    """Add each row to the windows that it falls in; all times are in ms (rules O8.1, O9).

    A tumbling window is a hopping window that advances by its size. A result ends in the window bounds. With `final` a
    window is emitted once, when it closes. Without a cache in front of the store, as in ksqlDB, it is lost if it then
    starts more than `retention_ms` before the newest window (rule O9.4).
    """

    scope: ClassVar[Scope] = Scope.TASK

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

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Update the open windows of the row, then delete expired windows; FINAL emits the windows that closed."""
        if row.key is None or row.value is None:
            return []
        time: int = max(state.get("time", row.timestamp), row.timestamp)
        state["time"] = time
        close = time - self.grace_ms
        outputs: list[Output] = []
        starts = self._starts(row.timestamp)
        if starts and starts[0] + self.size_ms <= close:
            late_rows.note(state, row.timestamp, (starts[0], starts[0] + self.size_ms), self.grace_ms, time)
        for start in starts:
            if start + self.size_ms > close:
                self._update(start, row, row.key, row.value, state, outputs)
        # Pull queries can read emitted windows for the retention, which is at least size + grace.
        self.close(
            close - self.size_ms if self.final else state.get("newest", 0) - self.retention_ms - 1, state, outputs
        )
        return outputs

    def forget(self, state: State) -> None:
        """Delete the windows whose retention is over."""
        self.close(state.get("newest", 0) - self.retention_ms - 1, state, [])

    def pack(self, state: State) -> None:
        """Pack the windows that rows have changed, so that windows without new rows stay encoded."""
        windows = state.get("windows", {})
        for start, groups in windows.items():
            if not isinstance(groups, bytes):
                windows[start] = pack_state(groups)
        if "starts" in state:
            state["starts"].sort()

    def _starts(self, timestamp: int) -> range:
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp + 1, self.advance_ms)

    def _update(self, start: int, row: Row, key: Key, value: Value, state: State, outputs: list[Output]) -> None:
        groups = groups_of(start, state)
        packed_key = self.key_bytes(key)
        group = groups.get(packed_key)
        if group is None:
            group = groups[packed_key] = [*new_group(self.columns, self.calls, row.timestamp), list(key)]
        before = result(group, self.calls) if self.with_old and not self.final else None
        add(group, self.columns, self.calls, value, state)
        group[TIMESTAMP] = max(group[TIMESTAMP], row.timestamp)
        if not self.final:
            after = result(group, self.calls)
            bounds = (start, start + self.size_ms)
            old = None if before is None else with_shared(before, after, self.calls) + bounds
            outputs.append(Output(key, after + bounds, group[TIMESTAMP], window=bounds, old=old))
        store(group, self.calls)

    def close(self, last_start: int, state: State, outputs: list[Output]) -> None:
        """Delete the windows that start at `last_start` (ms) or before; FINAL emits them."""
        starts = state.get("starts", [])
        while starts and starts[0] <= last_start:
            start = heappop(starts)
            groups = unpacked(state["windows"].pop(start))
            if self.final and (self.has_cache or start >= state["newest"] - self.retention_ms):
                bounds = (start, start + self.size_ms)
                for packed_key in sorted(groups):
                    group = groups[packed_key]
                    outputs.append(
                        Output(tuple(group[_KEY]), result(group, self.calls) + bounds, group[TIMESTAMP], window=bounds)
                    )


def groups_of(start: int, state: State) -> dict[bytes, Group]:
    """Return the groups of the window that starts at `start` (ms), a new window if there is none."""
    windows: dict[int, dict[bytes, Group] | bytes] = state.setdefault("windows", {})
    if start not in windows:
        heappush(state.setdefault("starts", []), start)
        state["newest"] = max(state.get("newest", start), start)
    groups = windows[start] = unpacked(windows.get(start, {}))
    return groups
