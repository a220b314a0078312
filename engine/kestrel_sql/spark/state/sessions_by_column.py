"""Computes aggregates in session windows over whole columns of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.columns import to_rows
from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.operators import late_rows
from kestrel_sql.operators.aggregates.by_column import Folded, Segments, greatest
from kestrel_sql.operators.aggregates.sessions import END, GROUP, START, Session, SessionWindowAggregate
from kestrel_sql.operators.number_columns import Flags, Numbers, Values, columns_of, objects_of
from kestrel_sql.operators.operator import Output, Row, State
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.io.columns import rows_at
from kestrel_sql.spark.state.by_column import ColumnAggregate
from kestrel_sql.spark.state.column_rows import (
    FAR_MS,
    MANY_ROWS,
    Made,
    are_near,
    codes_of,
    enveloped,
    output_structs,
)
from kestrel_sql.spark.state.grouped_rows import Grouped, GroupObjects, Shares


@dataclass(frozen=True, slots=True)
class _Spread:
    """Rows in the order of their ordinals, and the clusters that they belong to.

    A cluster has the rows and stored sessions of a key that lie within the gap of each other, so that no row of one
    cluster ever joins a session of another.

    Attributes:
        now: the stream time (ms) after each row.
        clusters: the cluster of each row.
        stored: the stored session of each cluster; None without one, or with more than one.
        names: the packed key of each cluster.
        plain: which clusters always have one session, that every row joins.
    """

    now: Numbers
    clusters: Numbers
    stored: Sequence[Session | None]
    names: Sequence[bytes]
    plain: Flags


@dataclass(frozen=True, slots=True)
class _Made:
    """Outputs: their causes, structs, windows (ms), and their positions among the outputs of their causes."""

    causes: Numbers
    structs: pa.StructArray
    starts: Numbers
    ends: Numbers
    positions: Numbers


class ColumnSessions(ColumnAggregate):
    """Computes an aggregate in session windows over whole columns.

    Rows that merge two sessions, come after their session has expired, or are late go row by row.
    """

    def __init__(self, stateful: Stateful, operator: SessionWindowAggregate, made: pa.Schema) -> None:
        super().__init__(stateful, operator, made)
        self._sessions = operator

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows, and none is too far in the past or the future."""
        closed = self._sessions.gap_ms + self._sessions.grace_ms
        return rows.num_rows >= MANY_ROWS and closed < FAR_MS and are_near(rows)

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        chosen = self._in_order(rows)
        if not chosen.num_rows:
            return
        spread = self._spread(chosen, state)
        plain = spread.plain[spread.clusters]
        made = [self._one_by_one(chosen, np.flatnonzero(~plain), spread, state)]
        if plain.any():
            made += self._folded_sessions(chosen, np.flatnonzero(plain), spread, state)
        state["time"] = state["newest"] = int(spread.now[-1])
        yield from self._emitted(chosen, spread.now, made, task, state)

    def _emitted(
        self, chosen: pa.RecordBatch, now: Numbers, made: Sequence[_Made], task: int, state: State
    ) -> Iterator[pa.RecordBatch]:
        """Delete expired sessions, and return the results; each row has its stream time `now` (ms)."""
        self._sessions.prune(state)
        causes = np.concatenate([each.causes for each in made])
        if not len(causes):
            return
        order = np.argsort(causes, kind="stable")
        starts, ends, positions = (
            np.concatenate(parts)[order]
            for parts in zip(*((each.starts, each.ends, each.positions) for each in made), strict=True)
        )
        structs = pa.concat_arrays([each.structs for each in made]).take(pa.array(order))
        found = Made(self._output.number, structs, ends, positions, (pa.array(starts), pa.array(ends)))
        yield from enveloped(rows_at(chosen, causes[order]), found, self._made, task)

    def _spread(self, rows: pa.RecordBatch, state: State) -> _Spread:
        keys = rows.column(struct_column(self._input.number)).field("k")
        _, firsts, groups = np.unique(codes_of(keys.flatten()), return_index=True, return_inverse=True)
        names = self._names.of(keys.take(pa.array(firsts)))
        lists = [state.setdefault("sessions", {}).get(name, ()) for name in names]
        stored: list[Session] = list(chain.from_iterable(lists))
        times = rows.column("ts").to_numpy()
        owners = np.concatenate([np.repeat(np.arange(len(names)), [len(each) for each in lists]), groups])
        clusters = self._clusters(
            owners,
            np.concatenate([np.array([each[START] for each in stored], np.int64), times]),
            np.concatenate([np.array([each[END] for each in stored], np.int64), times]),
        )
        count = int(clusters.max()) + 1
        held = np.bincount(clusters[: len(stored)], minlength=count)
        sessions: list[Session | None] = [None] * count
        for session, cluster in zip(stored, clusters.tolist(), strict=False):
            sessions[cluster] = session if held[cluster] == 1 else None
        owner = np.zeros(count, np.int64)
        owner[clusters] = owners
        now = np.maximum.accumulate(np.maximum(times, state.get("time", times[0])))
        own = clusters[len(stored) :]
        plain = (held <= 1) & self._always_joined(times, np.append(now[:1], now[:-1]), now, own, sessions)
        return _Spread(now, own, sessions, [names[at] for at in owner.tolist()], plain)

    def _clusters(self, owners: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
        """The clusters of spans of time (ms) of keys, numbered."""
        order = np.lexsort((starts, owners))
        changes = np.concatenate([[True], np.diff(owners[order]) != 0])
        segments = Segments(np.flatnonzero(changes), len(order))
        tops = _running(ends[order], segments, [None] * len(segments.starts)).after.values
        apart = np.concatenate([[True], starts[order][1:] - tops[:-1] > self._sessions.gap_ms])
        found = np.empty(len(order), np.int64)
        found[order] = np.cumsum(changes | apart) - 1
        return found

    def _always_joined(
        self, times: Numbers, before: Numbers, now: Numbers, clusters: Numbers, sessions: Sequence[Session | None]
    ) -> Flags:
        """In which clusters each row joins the session of all rows before it, if there are any, and is not too late."""
        gap, closed = self._sessions.gap_ms, self._sessions.gap_ms + self._sessions.grace_ms
        order = np.argsort(clusters, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(clusters[order]) != 0]))
        segments = Segments(starts, len(order))
        stored = [sessions[cluster] for cluster in clusters[order[starts]].tolist()]
        highs = _running(times[order], segments, [None if each is None else each[END] for each in stored])
        lows = _running(-times[order], segments, [None if each is None else -each[START] for each in stored])
        high, low = segments.before(highs.first, highs.after), segments.before(lows.first, lows.after)
        joins = (times[order] - gap <= high.values) & (times[order] + gap >= -low.values)
        joins &= high.values > before[order] - closed
        good = (joins | ~high.valid) & (highs.after.values >= now[order] - closed)
        found = np.ones(len(sessions), dtype=bool)
        found[clusters[order[starts]]] = np.logical_and.reduceat(good, starts)
        return found

    def _one_by_one(self, rows: pa.RecordBatch, at: Numbers, spread: _Spread, state: State) -> _Made:
        structs = rows.column(struct_column(self._input.number)).take(pa.array(at))
        times, now = rows.column("ts").to_numpy(), spread.now
        closed = self._sessions.gap_ms + self._sessions.grace_ms
        outputs: list[Output] = []
        causes: list[int] = []
        positions: list[int] = []
        given = zip(at.tolist(), to_rows(structs.field("k")), to_rows(structs.field("v")), strict=True)
        for cause, key, value in given:
            if cause or "newest" in state:
                state["newest"] = int(now[cause - 1]) if cause else state["newest"]
            row = Row(0, key, value, int(times[cause]))
            own = self._sessions.update(row, key or (), value or (), int(now[cause]) - closed, state)
            late_rows.note_row(state, rows.slice(cause, 1))
            outputs += own
            causes += [cause] * len(own)
            positions += range(len(own))
        bounds = np.array([output.window for output in outputs], np.int64).reshape(-1, 2)
        made = output_structs(outputs, self._output, self._made)
        return _Made(np.array(causes, np.int64), made, bounds[:, 0], bounds[:, 1], np.array(positions, np.int64))

    def _folded_sessions(self, rows: pa.RecordBatch, at: Numbers, spread: _Spread, state: State) -> list[_Made]:
        """Fold rows into the only session of their cluster."""
        clusters, numbers = np.unique(spread.clusters[at], return_inverse=True)
        stored = [spread.stored[cluster] for cluster in clusters.tolist()]
        names = [spread.names[cluster] for cluster in clusters.tolist()]
        held = [{} if each is None else {name: each[GROUP]} for name, each in zip(names, stored, strict=True)]
        shares = Shares(range(len(held)), numbers, np.zeros(len(at), np.int64))
        grouped, folded, ends = self._folded_rows(rows_at(rows, at), shares, {"held": held})
        self._store(grouped, folded, ends)
        mine = [stored[number] for number in numbers[grouped.order[grouped.rows.starts]].tolist()]
        starts = _running(
            -grouped.given_times[grouped.order],
            grouped.rows,
            [None if each is None else -each[START] for each in mine],
        )
        bounds = objects_of(starts.states), objects_of(ends.states)
        for key, name, session, start, end, own in zip(
            to_rows(grouped.keys), grouped.names, mine, *bounds, grouped.objects.own, strict=True
        ):
            merged = [] if session is None else [session]
            self._sessions.replace(name, merged, [end, -start, own[name], list(key or ())], state)
        if self._sessions.final:
            return []
        return [self._made_of(grouped, folded, at, starts, ends, np.array([each is not None for each in mine]))]

    def _made_of(
        self, grouped: Grouped, folded: Sequence[Folded], at: Numbers, lows: Folded, highs: Folded, continues: Flags
    ) -> _Made:
        """The tombstone of the session before each row, where there is one, and the session after it."""
        rows = grouped.rows
        first = np.zeros(rows.size, dtype=bool)
        first[rows.starts] = ~continues
        begun = Values(-lows.first.values, lows.first.valid), Values(-lows.after.values, lows.after.valid)
        start, end = grouped.unsorted(begun[1].values), grouped.unsorted(highs.after.values)
        old_start = grouped.unsorted(rows.before(*begun).values)
        old_end = grouped.unsorted(rows.before(highs.first, highs.after).values)
        retracts = ~grouped.unsorted(first) & (start != end)
        retracted = np.flatnonzero(retracts)
        causes = np.concatenate([retracted, np.arange(rows.size)])
        order = np.argsort(causes, kind="stable")
        causes, is_old = causes[order], order < len(retracted)
        kind = self._made.field(struct_column(self._output.number)).type
        taken, nothing = pa.array(causes), {"v": pa.array(is_old), "o": pa.array(~is_old)}
        parts = {"k": grouped.structs.field("k").take(taken)}
        columns = {"v": [*self._now(grouped, folded), pa.array(start), pa.array(end)]}
        if self._output.has_old:
            columns["o"] = [*self._before(grouped, folded), pa.array(old_start), pa.array(old_end)]
        for name, arrays in columns.items():
            fields = list(kind.field(name).type)
            parts[name] = pa.StructArray.from_arrays(
                [array.take(taken) for array in arrays], fields=fields, mask=nothing[name]
            )
        key = pa.StructArray.from_arrays(parts["k"].flatten(), fields=list(kind.field("k").type))
        structs = pa.StructArray.from_arrays([{**parts, "k": key}[each.name] for each in kind], fields=list(kind))
        return _Made(
            at[causes],
            structs,
            np.where(is_old, old_start[causes], start[causes]),
            np.where(is_old, old_end[causes], end[causes]),
            np.where(is_old, 0, retracts[causes].astype(np.int64)),
        )

    def _found(self, state: State, shares: Shares, numbers: Numbers, names: Sequence[bytes]) -> GroupObjects:
        return GroupObjects.of([state["held"][at] for at in numbers.tolist()], names, self._fresh())


class ColumnFinalSessions(ColumnSessions):
    """Computes an aggregate in session windows over whole columns, with the result of a session when it closes."""

    def _emitted(
        self, chosen: pa.RecordBatch, now: Numbers, made: Sequence[_Made], task: int, state: State
    ) -> Iterator[pa.RecordBatch]:
        """Emit the sessions that close, each at the row that closes it; later rows have not changed it."""
        limits = now - self._sessions.gap_ms - self._sessions.grace_ms
        closing = [end for end, *_ in state.get("ends", []) if end < limits[-1]]
        closed = {}
        for cause in np.unique(np.searchsorted(limits, closing, "right")).tolist():
            state["newest"] = int(now[cause])
            closed[cause] = self._sessions.close(int(limits[cause]), state)
        state["newest"] = int(now[-1])
        yield from self._final(chosen, closed, task)


def _running(times: Numbers, rows: Segments, states: Sequence[Any]) -> Folded:
    """The greatest timestamp (ms) of each segment after each of its rows."""
    return greatest(columns_of(states), Values(times, np.ones(len(times), dtype=bool)), rows)
