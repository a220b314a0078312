"""The operators that aggregate streams and tables without windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, new_group, result
from kestrel_sql.operators.group_state import TIMESTAMP
from kestrel_sql.operators.operator import Key, KeyBytes, Scope, State, Value
from tests.engine.operators.row_forms.groups import add, store, undo, with_shared
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregate(RowOperator):
    """Add each row to the group of its key; each row gives one output (rules O7)."""

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls
    with_old: bool = True
    """Whether a later step reads the replaced results."""

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Emit the group's new result; `old` of the first result is the initial aggregate (rules O4)."""
        if row.key is None or row.value is None:
            return []
        groups = state.setdefault("groups", {})
        packed_key = self.key_bytes(row.key)
        group = groups.get(packed_key)
        if group is None:
            group = groups[packed_key] = new_group(self.columns, self.calls, row.timestamp)
        before = result(group, self.calls) if self.with_old else None
        add(group, self.columns, self.calls, row.value, state)
        if row.timestamp > group[TIMESTAMP]:
            group[TIMESTAMP] = row.timestamp
        after = result(group, self.calls)
        store(group, self.calls)
        old = None if before is None else with_shared(before, after, self.calls)
        return [Output(row.key, after, group[TIMESTAMP], None, old)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate(RowOperator):
    """Undo the old row of a change in its group and add the new row to its group (rules O10)."""

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Emit one output per changed group: the group that the row leaves, then the group that it enters.

        A row without a group key changes no group. Groups are never removed.
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
        changed = enters or leaves
        if changed is None:
            return []
        key = changed[0]
        groups = state.setdefault("groups", {})
        packed_key = self.key_bytes(key)
        group = groups.get(packed_key)
        before = None if group is None else result(group, self.calls)
        if group is not None and leaves is not None:
            undo(group, self.columns, self.calls, leaves[1])
        if enters is not None:
            if group is None:
                group = groups[packed_key] = new_group(self.columns, self.calls, row.timestamp)
            add(group, self.columns, self.calls, enters[1], state)
        if group is None:
            return [Output(key, None, row.timestamp)]
        group[TIMESTAMP] = max(group[TIMESTAMP], row.timestamp)
        after = result(group, self.calls)
        store(group, self.calls)
        return [
            Output(key, after, group[TIMESTAMP], old=None if before is None else with_shared(before, after, self.calls))
        ]
