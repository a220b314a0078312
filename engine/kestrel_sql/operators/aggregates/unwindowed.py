"""Aggregates without windows, of streams and of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.aggregates.groups import TIMESTAMP, Calls, Columns, add, new_group, result, undo, with_shared
from kestrel_sql.operators.operator import Key, KeyBytes, Output, Row, Scope, State, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregate:
    """Fold each row into the group of its key; one output per row (operators.md 7)."""

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls
    with_old: bool = True
    """Whether anything asks for the results that are replaced."""

    def process(self, row: Row, state: State) -> list[Output]:
        """Give the group's new result; `old` of the very first is the initial aggregate (operators.md 4)."""
        if row.key is None or row.value is None:
            return []
        groups = state.setdefault("groups", {})
        name = self.key_bytes(row.key)
        group = groups.get(name)
        if group is None:
            group = groups[name] = new_group(self.columns, self.calls, row.timestamp)
        before = result(group, self.calls) if self.with_old else None
        add(group, self.columns, self.calls, row.value, state)
        if row.timestamp > group[TIMESTAMP]:
            group[TIMESTAMP] = row.timestamp
        after = result(group, self.calls)
        old = None if before is None else with_shared(before, after, self.calls)
        return [Output(row.key, after, group[TIMESTAMP], None, old)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate:
    """Undo a table's old row in its group, add the new one to its own (operators.md 10)."""

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls

    def process(self, row: Row, state: State) -> list[Output]:
        """Give one output per group touched: the group that is left, then the one that is entered.

        A side takes part if it has both a row and a group; groups are never removed.
        """
        leaves = (row.old_key, row.old) if row.old_key is not None and row.old is not None else None
        enters = (row.key, row.value) if row.key is not None and row.value is not None else None
        if leaves and enters and self.key_bytes(leaves[0]) != self.key_bytes(enters[0]):
            return [*self._change(leaves, None, row, state), *self._change(None, enters, row, state)]
        return self._change(leaves, enters, row, state)

    def _change(
        self, leaves: tuple[Key, Value] | None, enters: tuple[Key, Value] | None, row: Row, state: State
    ) -> list[Output]:
        """Undo and add within one group."""
        side = enters or leaves
        if side is None:
            return []
        key = side[0]
        groups = state.setdefault("groups", {})
        name = self.key_bytes(key)
        group = groups.get(name)
        before = None if group is None else result(group, self.calls)
        if group is not None and leaves is not None:
            undo(group, self.columns, self.calls, leaves[1])
        if enters is not None:
            if group is None:
                group = groups[name] = new_group(self.columns, self.calls, row.timestamp)
            add(group, self.columns, self.calls, enters[1], state)
        if group is None:
            return [Output(key, None, row.timestamp)]
        group[TIMESTAMP] = max(group[TIMESTAMP], row.timestamp)
        after = result(group, self.calls)
        return [
            Output(key, after, group[TIMESTAMP], old=None if before is None else with_shared(before, after, self.calls))
        ]
