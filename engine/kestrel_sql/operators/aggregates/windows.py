"""Aggregates in tumbling and hopping windows; a tumbling window is a hopping one that advances by its size."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, ClassVar

from kestrel_sql.operators.aggregates.groups import (
    TIMESTAMP,
    Calls,
    Columns,
    Group,
    add,
    new_group,
    result,
    with_shared,
)
from kestrel_sql.operators.operator import Key, KeyBytes, Output, Row, Scope, State, Value
from kestrel_sql.operators.state_codec import load_state, pack_state

_KEY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindowAggregate:
    """Fold each row into the windows it falls in, all times in ms (operators.md 8.1 and 9).

    With `final` nothing is emitted before a window closes; then a window is lost, as in ksqlDB, if it is older than
    `retention_ms` before the newest window start when its turn comes. The window bounds are appended to the results.
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
    with_old: bool = True
    """Whether anything asks for the results that are replaced."""

    def process(self, row: Row, state: State) -> list[Output]:
        """Update the open windows of the row, then forget those that nobody can read any more; FINAL emits those that closed."""
        if row.key is None or row.value is None:
            return []
        time: int = max(state.get("time", row.timestamp), row.timestamp)
        state["time"] = time
        close = time - self.grace_ms
        outputs: list[Output] = []
        for start in self._starts(row.timestamp):
            if start + self.size_ms > close:
                self._update(start, row, row.key, row.value, state, outputs)
        # What has been emitted stays readable for the retention, which is no shorter than size and grace.
        self._close(
            close - self.size_ms if self.final else state.get("newest", 0) - self.retention_ms - 1, state, outputs
        )
        return outputs

    def forget(self, state: State) -> None:
        """Forget the windows that nobody can read any more."""
        self._close(state.get("newest", 0) - self.retention_ms - 1, state, [])

    def pack(self, state: State) -> None:
        """Pack the windows that rows have reached: what no row reaches again is neither read nor written group by group."""
        windows = state.get("windows", {})
        for start, groups in windows.items():
            if not isinstance(groups, bytes):
                windows[start] = pack_state(groups)

    def _starts(self, timestamp: int) -> range:
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp + 1, self.advance_ms)

    def _update(self, start: int, row: Row, key: Key, value: Value, state: State, outputs: list[Output]) -> None:
        groups = groups_of(start, state)
        name = self.key_bytes(key)
        group = groups.get(name)
        if group is None:
            group = groups[name] = [*new_group(self.columns, self.calls, row.timestamp), list(key)]
        before = result(group, self.calls) if self.with_old and not self.final else None
        add(group, self.columns, self.calls, value, state)
        group[TIMESTAMP] = max(group[TIMESTAMP], row.timestamp)
        if not self.final:
            after = result(group, self.calls)
            bounds = (start, start + self.size_ms)
            old = None if before is None else with_shared(before, after, self.calls) + bounds
            outputs.append(Output(key, after + bounds, group[TIMESTAMP], window=bounds, old=old))

    def _close(self, last_start: int, state: State, outputs: list[Output]) -> None:
        """Forget the windows that start up to `last_start`, which no row can reach any more; FINAL emits them now."""
        starts = state.get("starts", [])
        while starts and starts[0] <= last_start:
            start = heappop(starts)
            groups = unpacked(state["windows"].pop(start))
            if self.final and start >= state["newest"] - self.retention_ms:
                bounds = (start, start + self.size_ms)
                for name in sorted(groups):
                    group = groups[name]
                    outputs.append(
                        Output(tuple(group[_KEY]), result(group, self.calls) + bounds, group[TIMESTAMP], window=bounds)
                    )


def groups_of(start: int, state: State) -> dict[bytes, Group]:
    """The groups of the window that starts then (ms), which is opened if it is not."""
    windows: dict[int, dict[bytes, Group] | bytes] = state.setdefault("windows", {})
    if start not in windows:
        heappush(state.setdefault("starts", []), start)
        state["newest"] = max(state.get("newest", start), start)
    groups = windows[start] = unpacked(windows.get(start, {}))
    return groups


def unpacked(groups: dict[bytes, Group] | bytes) -> dict[bytes, Group]:
    """The groups of a window, which lie packed in a state until a row reaches it."""
    if not isinstance(groups, bytes):
        return groups
    found: Any = load_state(groups)
    opened: dict[bytes, Group] = found
    return opened
