"""The operators that aggregate streams and tables without windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.aggregates.folding import Folding, only_usable, usable_rows
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, result
from kestrel_sql.operators.group_state import TIMESTAMP
from kestrel_sql.operators.operator import Batch, KeyBytes, Ref, Results, Scope, State, StateEntry
from kestrel_sql.operators.state_codec import homes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregate:
    """Add each row to the group of its key; each row gives one output (rules O7)."""

    scope: ClassVar[Scope] = Scope.KEY
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls
    with_old: bool = True
    """Whether a later step reads the replaced results."""

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Emit the group's new result for each row; `old` of the first is the initial aggregate (rules O4)."""
        at, names, slots = usable_rows(rows, self.key_bytes)
        if not at:
            return
        homes = homes_of(state.setdefault("groups", {}), names)
        folding = Folding(self.columns, self.calls, rows)
        folding.refs, folding.slots = at, slots
        folding.stored = [home.get(name) for home, name in zip(homes, names, strict=True)]
        folding.fold(state, before=self.with_old)
        for home, name, group in zip(homes, names, folding.groups(), strict=True):
            home[name] = group
        results = folding.results(at, folding.times, range(len(at)), folding.previous() if self.with_old else None)
        yield from folding.checked(results)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the result of each group."""
        for key, group in state.get("groups", {}).items():
            yield StateEntry(part="groups", key=key, value=result(group, self.calls), timestamp=group[TIMESTAMP])


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate:
    """Undo the old row of a change in its group and add the new row to its group (rules O10)."""

    scope: ClassVar[Scope] = Scope.KEY
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Emit one output per changed group: the group that the row leaves, then the group that it enters.

        A row without a group key changes no group. Groups are never removed.
        """
        entered = only_usable(rows.keys(self.key_bytes), rows.present)
        left = only_usable(rows.old_keys(self.key_bytes), rows.has_old)
        names = [name for name in dict.fromkeys([*left, *entered]) if name is not None]
        if not names:
            return
        homes = homes_of(state.setdefault("groups", {}), names)
        folding = Folding(self.columns, self.calls, rows)
        folding.stored = [home.get(name) for home, name in zip(homes, names, strict=True)]
        slots: dict[bytes | None, int] = {name: slot for slot, name in enumerate(names)}
        exists = [group is not None for group in folding.stored]
        kept = [slot for slot, there in enumerate(exists) if there]
        last, causes, keys = [~slot for slot in slots.values()], list[int](), list[Ref]()
        now, before, refs, own = list[int | None](), list[int | None](), list[int](), list[int]()
        for at, (leaves, enters) in enumerate(zip(left, entered, strict=True)):
            for name in (enters,) if leaves == enters else (leaves, enters):
                if name is None:
                    continue
                slot = slots[name]
                causes.append(at)
                keys.append(at if name == enters else ~at)
                before.append(last[slot] if exists[slot] else None)
                if name == leaves and exists[slot]:
                    refs.append(~at)
                    own.append(slot)
                if name == enters:
                    refs.append(at)
                    own.append(slot)
                    if not exists[slot]:
                        exists[slot] = True
                        kept.append(slot)
                if exists[slot]:
                    last[slot] = len(refs) - 1
                now.append(last[slot] if exists[slot] else None)
        folding.refs, folding.slots = refs, own
        folding.fold(state)
        for slot, group in zip(kept, folding.groups(kept), strict=True):
            homes[slot][names[slot]] = group
        times = [rows.times[at] if ref is None else folding.times[ref] for at, ref in zip(causes, now, strict=True)]
        results = folding.results(causes, times, now, before)
        results.keys = keys
        yield from folding.checked(results)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the result of each group."""
        for key, group in state.get("groups", {}).items():
            yield StateEntry(part="groups", key=key, value=result(group, self.calls), timestamp=group[TIMESTAMP])
