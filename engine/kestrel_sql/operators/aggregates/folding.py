"""Folds the rows of a batch into groups, for all aggregating operators."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from kestrel_sql.functions.declaration import Aggregator
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, failure_of
from kestrel_sql.operators.group_state import COLUMNS, STATES, TIMESTAMP, Group
from kestrel_sql.operators.operator import Batch, KeyBytes, OwnColumn, Ref, Results, RowError, State

COLUMNS_FROM = 256
"""From this many entries on, NumPy folds a column sooner than one call for each value.

`ONLY=folds python -m tests.bench thresholds` measures it.
"""


def usable_rows(rows: Batch, key_bytes: KeyBytes) -> tuple[Sequence[int], list[bytes], Sequence[int]]:
    """Return the rows that have a key and a value, their keys that differ, and which of them each row has."""
    names, slots = rows.by_key(key_bytes)
    if None not in names and all(rows.present):
        known: list[Any] = names
        return range(len(slots)), known, slots
    keys = [names[slot] if there else None for slot, there in zip(slots, rows.present, strict=True)]
    numbers = {key: slot for slot, key in enumerate(key for key in dict.fromkeys(keys) if key is not None)}
    found = [(at, key) for at, key in enumerate(keys) if key is not None]
    return [at for at, _ in found], [*numbers], [numbers[key] for _, key in found]


class _Round(msgspec.Struct):
    """Entries, in order, and the groups among theirs that start with what others have after earlier rounds."""

    merged: list[int]
    entries: Sequence[int]
    sorted: Any = None
    """The entries by group, once an aggregate needs that."""


class Folding:
    """The groups that a batch changes, by number, and what the batch does to them, in order.

    An operator numbers the groups and says which row changes which: an entry is one such change. Then each aggregate is
    folded over all entries. A result is known by its entry, or as `~slot` if it is that of a group before the batch.

    Attributes:
        rows: the rows of the batch.
        stored: the groups as they were before it; None is one without rows.
        refs: the row that each entry adds, or the version of a row that it takes back.
        slots: the number of its group.
        times: the timestamp (ms) of its group after it.
        latest: the timestamp (ms) of each group after all entries.
    """

    __slots__ = (
        "_calls",
        "_columns",
        "_end",
        "_failed",
        "_folded",
        "_merged",
        "latest",
        "refs",
        "rows",
        "slots",
        "stored",
        "times",
    )

    def __init__(self, columns: Columns, calls: Calls, rows: Batch) -> None:
        self.rows, self._columns, self._calls = rows, columns, calls
        self.refs: Sequence[int] = ()
        self.slots: Sequence[int] = ()
        self.times: list[int] = []
        self.stored: list[Group | None] = []
        self.latest: list[Any] = []
        self._merged: dict[int, Sequence[int]] = {}
        self._folded: list[_Folded] = []
        self._end = 0
        self._failed: tuple[int, Exception] | None = None

    def group(self, stored: Group | None) -> int:
        """Number a group of the state."""
        self.stored.append(stored)
        return len(self.stored) - 1

    def merged(self, slots: Sequence[int]) -> int:
        """Number a group that starts with what others have after all their entries."""
        slot = self.group(None)
        self._merged[slot] = slots
        return slot

    def previous(self, entries: Sequence[int | None] | None = None) -> list[int | None]:
        """The result that each entry replaces; that of a new group is the initial aggregate.

        Of the results of some `entries` only, the first of a new group replaces none.
        """
        last: list[int | None] = [
            ~slot if entries is None or group is not None else None for slot, group in enumerate(self.stored)
        ]
        found: list[int | None] = []
        for entry in range(len(self.slots)) if entries is None else entries:
            if entry is None:
                found.append(None)
            else:
                slot = self.slots[entry]
                found.append(last[slot])
                last[slot] = entry
        return found

    def fold(self, state: State, *, results: bool = True, before: bool = True) -> None:
        """Fold each aggregate over the entries; keep the `results` after each, and those of groups `before` them."""
        width = sum(aggregator.numbered for aggregator, _ in self._calls)
        number, count = state.get("number", 0), len(self.refs)
        if width and count:
            state["number"] = number + width * count
        rounds = self._rounds()
        if not self.times:
            self._note_times()
        for position, (aggregator, arguments) in enumerate(self._calls):
            number += aggregator.numbered
            states = [aggregator.initialize() if group is None else group[STATES][position] for group in self.stored]
            folded = _Folded(self, aggregator, arguments, states, results)
            if aggregator.numbered:
                folded.numbers = range(number, number + width * count, width)
            if before:
                self._attempt(folded, folded.begin)
            for each in rounds:
                self._fold(folded, each)
            self._folded.append(folded)

    def _note_times(self) -> None:
        """The timestamp of a group is the greatest of its rows."""
        given = self.rows.times
        times = [*given] if isinstance(self.refs, range) else [given[ref if ref >= 0 else ~ref] for ref in self.refs]
        self.latest = latest = [None if group is None else group[TIMESTAMP] for group in self.stored]
        for entry, slot in enumerate(self.slots):
            time, known = times[entry], latest[slot]
            if known is None or time > known:
                latest[slot] = time
            else:
                times[entry] = known
        self.times = times

    def sorted(self, round_: _Round) -> Any:
        """Return entries by group, sorted once for all aggregates."""
        if round_.sorted is None:
            # NumPy takes longer to load than this process needs for the few rows of most batches.
            from kestrel_sql.operators.aggregates.column_folds import Sorted

            round_.sorted = Sorted.of(self.slots, self.refs, round_.entries)
        return round_.sorted

    def _rounds(self) -> list[_Round]:
        if not self._merged:
            return [_Round([], range(len(self.refs)))]
        depths = [0] * len(self.stored)
        for slot, merged in self._merged.items():
            depths[slot] = 1 + max(depths[each] for each in merged)
        entries: list[list[int]] = [[] for _ in range(max(depths) + 1)]
        for entry, slot in enumerate(self.slots):
            entries[depths[slot]].append(entry)
        return [
            _Round([slot for slot in self._merged if depths[slot] == depth], own) for depth, own in enumerate(entries)
        ]

    def _fold(self, folded: _Folded, round_: _Round) -> None:
        if self._failed is not None:
            end = bisect_left(round_.entries, self._end)
            round_ = _Round([slot for slot in round_.merged if self.slots.index(slot) < end], round_.entries[:end])
        for slot in round_.merged:
            self._attempt(folded, partial(folded.merge, slot, self._merged[slot]))
        self._attempt(folded, partial(folded.fold, round_))

    def _attempt(self, folded: _Folded, step: Callable[[], None]) -> None:
        """Take a step; if the aggregate fails, the entries before it have results."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - any error of an aggregate fails its query
            entry = folded.entry if folded.entry >= 0 else self.slots.index(~folded.entry)
            row = max(self.refs[entry], ~self.refs[entry])
            self._end = entry if self._failed is None else min(entry, self._end)
            self._fail(row, failure_of(folded.aggregator, error))

    def _fail(self, row: int, error: Exception) -> None:
        if self._failed is None or row < self._failed[0]:
            self._failed = row, error

    def results(
        self,
        causes: Any,
        times: list[int],
        now: Sequence[int | None],
        before: Sequence[int | None] | None = None,
        *,
        shared: bool = True,
    ) -> Results:
        """Return results by their causes and timestamps, and those that they replace.

        Aggregates that ksqlDB changes in place show new results in their place if these are `shared` (rules O11).
        """
        picked, own = self.values(now)
        results = Results(causes=causes, times=times, values={0: picked}, picks=self._columns, own=own)
        if before is not None:
            picked, results.old_own = self.values(before, now if shared else before)
            results.old = {0: picked}
        return results

    def values(
        self, refs: Sequence[int | None], shared: Sequence[int | None] | None = None
    ) -> tuple[list[Ref], list[OwnColumn]]:
        """Return the rows whose non-aggregate columns some results have, and the columns of their aggregates.

        None is no result. Aggregates that ksqlDB changes in place show the `shared` results instead (rules O11).
        """
        stored, rows = self.stored, self.refs
        picked: Any = rows
        if not isinstance(refs, range):
            picked = [None if ref is None else rows[ref] if ref >= 0 else self._copied(stored[~ref]) for ref in refs]
        now = _Wanted(refs)
        changed = now if shared is None or shared is refs else _Wanted(shared)
        is_old, is_changed = shared is not None, shared is refs
        return picked, [
            each.at(changed, old=is_changed) if each.aggregator.mutates else each.at(now, old=is_old)
            for each in self._folded
        ]

    def _copied(self, group: Group | None) -> list[object]:
        found: list[Any] = [None] * len(self._columns) if group is None else group[COLUMNS]
        return found

    def last(self, causes: list[int], slots: Sequence[int]) -> Results:
        """Return the results of groups after all entries, by their causes."""
        rows = dict(zip(self.slots, self.refs, strict=True))
        picked: list[Ref] = [rows[slot] if slot in rows else self._copied(self.stored[slot]) for slot in slots]
        own: list[OwnColumn] = []
        for folded in self._folded:
            column: list[Any] = [None] * len(slots)
            for at, slot in enumerate(slots):
                try:
                    column[at] = folded.aggregator.result(folded.states[slot])
                except Exception as error:  # noqa: BLE001 - any error of an aggregate fails its query
                    self._fail(causes[at], failure_of(folded.aggregator, error))
                    break
            own.append(column)
        times = [self.latest[slot] for slot in slots]
        return Results(causes=causes, times=times, values={0: picked}, picks=self._columns, own=own)

    def groups(self, slots: Sequence[int] | None = None) -> list[Group]:
        """Return groups, or some of them, after all entries."""
        columns: list[list[Any]] = []
        if self._columns:
            last = dict(zip(self.slots, self.refs, strict=True))
            refs = [*last.values()]
            copied = [*map(list, zip(*(self.rows.column(place, refs) for place in self._columns), strict=True))]
            # Most groups are numbered by their first entries.
            columns = copied if [*last] == [*range(len(self.stored))] else [*map(self._copied, self.stored)]
            for slot, values in zip(last, copied, strict=True) if columns is not copied else ():
                columns[slot] = values
        own: Sequence[int] = range(len(self.stored)) if slots is None else slots
        parts = [folded.states if slots is None else [folded.states[slot] for slot in slots] for folded in self._folded]
        return [
            *map(
                list,
                zip(
                    self.latest if slots is None else [self.latest[slot] for slot in slots],
                    [columns[slot] for slot in own] if columns else [[] for _ in own],
                    [*map(list, zip(*parts, strict=True))] if parts else [[] for _ in own],
                    strict=True,
                ),
            )
        ]

    def checked(self, results: Results) -> Iterator[Results]:
        """Yield results up to the row on which an aggregate failed.

        Raises:
            RowError: an aggregate failed.
        """
        if self._failed is None:
            yield results
            return
        row, error = self._failed
        yield results.first(bisect_left(results.causes, row))
        raise RowError(row) from error


class _Wanted:
    """Results by entry, or `~slot`, in the forms that the columns of all aggregates share.

    `at` is None if they are those of all entries. They are mixed if some are not those of entries.
    """

    __slots__ = ("_array", "at", "is_mixed")

    def __init__(self, refs: Sequence[int | None]) -> None:
        self.at = None if isinstance(refs, range) else [-1 if ref is None else ref for ref in refs]
        self.is_mixed = self.at is not None and min(self.at, default=0) < 0
        self._array: Any = None

    def array(self) -> Any:
        """Return them for NumPy."""
        if self._array is None:
            import numpy as np

            self._array = np.array(self.at, np.int64)
        return self._array


class _Folded:
    """An aggregate, as it is folded over entries.

    Attributes:
        aggregator: the aggregate.
        states: the state of each group.
        numbers: for each entry the number that the aggregate takes before its arguments.
        entry: the entry that is folded, or `~slot` for a group before its first one.
    """

    __slots__ = (
        "_after",
        "_arguments",
        "_first",
        "_folding",
        "_results",
        "_stored",
        "aggregator",
        "entry",
        "numbers",
        "states",
    )

    def __init__(
        self, folding: Folding, aggregator: Aggregator, arguments: Sequence[int], states: list[object], results: bool
    ) -> None:
        self._folding, self.aggregator, self._arguments, self.states = folding, aggregator, arguments, states
        self.numbers: Sequence[int] = ()
        self.entry, self._results = 0, results
        self._first: list[Any] = []
        self._after: Any = []
        if results:
            self._after = [None] * len(folding.refs)
        self._stored: Any = [*self._after] if aggregator.restored is not None else None

    def begin(self) -> None:
        """Note the results of the groups before the batch."""
        for slot, state in enumerate(self.states):
            self.entry = ~slot
            self._first.append(self.aggregator.result(state))

    def merge(self, slot: int, merged: Sequence[int]) -> None:
        """Start a group with what others have by now."""
        self.entry = ~slot
        for each in merged:
            self.states[slot] = self.aggregator.merge(self.states[slot], self.states[each])

    def fold(self, round_: _Round) -> None:
        """Fold the aggregate over entries."""
        if self.aggregator.fold is not None and len(round_.entries) >= COLUMNS_FROM:
            self._fold_column(round_)
            return
        folding, states, after = self._folding, self.states, self._after
        refs, slots, entries = folding.refs, folding.slots, round_.entries
        add, undo, result = self.aggregator.aggregate, self.aggregator.undo, self.aggregator.result
        restored = self.aggregator.restored
        given = self._given()
        chosen = given if isinstance(entries, range) else (given[entry] for entry in entries)
        for entry, arguments in zip(entries, chosen, strict=False):
            self.entry, slot = entry, slots[entry]
            step: Any = add if refs[entry] >= 0 else undo
            state = states[slot] = step(states[slot], *arguments)
            if after:
                after[entry] = result(state)
            if restored is not None:
                state = states[slot] = restored(state)
                if after:
                    self._stored[entry] = result(state)

    def _given(self) -> Sequence[tuple[object, ...]]:
        """What the aggregate takes for each entry after the state."""
        refs = self._folding.refs
        columns: list[Sequence[Any]] = [self.numbers] if self.aggregator.numbered else []
        columns += [self._folding.rows.column(place, refs) for place in self._arguments]
        return [*zip(*columns, strict=True)] if columns else [()] * len(refs)

    def _fold_column(self, round_: _Round) -> None:
        folding = self._folding
        entries = folding.sorted(round_)
        after = entries.fold(self.aggregator.fold, self.states, folding.rows, self._arguments)
        if not self._results:
            return
        if len(round_.entries) == len(folding.refs):
            self._after = after
            return
        for entry, value in zip(round_.entries, after.listed(), strict=True):
            self._after[entry] = value

    def at(self, wanted: _Wanted, *, old: bool) -> OwnColumn:
        """Return results by entry, or `~slot` for those of groups before the batch; any value for None.

        Those that are `old` are what the store gives back.
        """
        after: Any = self._after if self._stored is None or not old else self._stored
        found: OwnColumn = after
        if wanted.at is None:
            return found
        if not isinstance(after, list):
            found = after.picked(self._first if wanted.is_mixed else (), wanted.array())
        else:
            known = ([*after, *reversed(self._first)] or [None]) if wanted.is_mixed else after
            found = [known[ref] for ref in wanted.at]
        return found
