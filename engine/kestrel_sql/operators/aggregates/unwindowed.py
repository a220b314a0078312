"""The operators that aggregate streams and tables without windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from operator import ne
from typing import ClassVar

from kestrel_sql.operators.aggregates.folding import Folding, usable_rows
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, result
from kestrel_sql.operators.group_state import TIMESTAMP, Group
from kestrel_sql.operators.operator import Batch, KeyBytes, Ref, Results, Scope, State, StateEntry
from kestrel_sql.operators.state_codec import homes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """An aggregate whose state has a group for each key."""

    scope: ClassVar[Scope] = Scope.KEY
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    columns: Columns
    calls: Calls
    with_old: bool = True
    """Whether a later step reads the replaced results."""

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the result of each group."""
        for key, group in state.get("groups", {}).items():
            yield StateEntry(part="groups", key=key, value=result(group, self.calls), timestamp=group[TIMESTAMP])


class StreamAggregate(_Groups):
    """Add each row to the group of its key; each row gives one output (rules O7)."""

    __slots__ = ()

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


class TableAggregate(_Groups):
    """Undo the old row of a change in its group and add the new row to its group (rules O10)."""

    __slots__ = ()

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Emit one output per changed group: the group that the row leaves, then the group that it enters.

        A row without a group key changes no group. Groups are never removed.
        """
        names, slots = rows.by_key(self.key_bytes, old=True)
        refs, own, ends = _steps(rows, slots, names.index(None) if None in names else None)
        if not refs:
            return
        homes = homes_of(state.setdefault("groups", {}), names)
        folding = Folding(self.columns, self.calls, rows)
        folding.stored = [home.get(name) for home, name in zip(homes, names, strict=True)]
        keys, now = list[Ref](compress(refs, ends)), list[int | None](compress(range(len(refs)), ends))
        causes = [ref if ref >= 0 else ~ref for ref in compress(refs, ends)]
        kept = _changing(refs, own, folding.stored)
        if kept is not None:
            places = [*accumulate(kept)]
            now = [places[step] - 1 if kept[step] else None for step in compress(range(len(refs)), ends)]
            refs, own = [*compress(refs, kept)], [*compress(own, kept)]
        folding.refs, folding.slots = refs, own
        folding.fold(state, before=self.with_old)
        changed = [*dict.fromkeys(own)]
        for slot, group in zip(changed, folding.groups(changed), strict=True):
            homes[slot][names[slot]] = group
        given = zip(causes, now, strict=True)
        times = [rows.times[at] if entry is None else folding.times[entry] for at, entry in given]
        results = folding.results(causes, times, now, folding.previous(now) if self.with_old else None)
        results.keys = results.values[0] if kept is None else keys
        yield from folding.checked(results)


def _steps(rows: Batch, slots: Sequence[int], null: int | None) -> tuple[list[int], list[int], list[bool]]:
    """What rows do to groups: `row` enters or `~row` leaves, the group, and whether the row is done with it then.

    `slots` are the numbers of the keys of rows, then of the versions that they replace; `null` is that of NULL. A row
    leaves a group before it enters one.
    """
    size, present = len(rows.times), rows.present
    entered, left = slots[:size], slots[size:]
    if not all(present):
        entered = [slot if there else -1 for slot, there in zip(entered, present, strict=True)]
    refs, own, ends, used = [0] * 2 * size, [0] * 2 * size, [True] * 2 * size, [True] * 2 * size
    refs[::2], refs[1::2] = range(-1, -size - 1, -1), range(size)
    own[::2], own[1::2] = left, entered
    ends[::2] = map(ne, left, entered)
    used[::2], used[1::2] = rows.has_old, present
    if null is not None and null in compress(own, used):
        used = [there and slot != null for there, slot in zip(used, own, strict=True)]
    return [*compress(refs, used)], [*compress(own, used)], [*compress(ends, used)]


def _changing(refs: Sequence[int], own: Sequence[int], stored: Sequence[Group | None]) -> list[bool] | None:
    """Which steps change groups: a row that leaves a group before any has entered it does not. None if all do."""
    exists = [group is not None for group in stored]
    first = {} if all(exists) else dict(zip(reversed(own), reversed(refs), strict=True))
    if all(ref >= 0 or exists[slot] for slot, ref in first.items()):
        return None
    kept = []
    for ref, slot in zip(refs, own, strict=True):
        exists[slot] = exists[slot] or ref >= 0
        kept.append(exists[slot])
    return kept
