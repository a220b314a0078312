"""Runs the steps of a stage over Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import asdict

from kestrel_sql.dataflow.arrow_cells import Arrow, numbers_of
from kestrel_sql.dataflow.graph import Chain
from kestrel_sql.dataflow.rows import Cells, Entry, Part, Rows
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, HEADERS, LOG, LOG_ONLY, rows_of, struct_column
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.cells import relation_rows, relation_structs
from kestrel_sql.spark.io.columns import values_at
from kestrel_sql.spark.io.topics import empty_lists

Numbers = npt.NDArray[np.int64]


class _Entries(msgspec.Struct):
    """The entries of the processing log about the rows of a batch, by index."""

    found: dict[int, list[dict[str, Any]]] = {}

    def add(self, rows: Rows, at: int, entry: Entry) -> None:
        """Add an entry about a row."""
        self.found.setdefault(rows.at[at], []).append({**asdict(entry), "cause": [*entry.cause]})


def run_stage(stage: Mapping[int, Chain]) -> Pass:
    """Return the function for `mapInArrow` that applies the steps of a stage to the rows of its relations."""
    chains = [chain for _, chain in sorted(stage.items()) if chain.steps]
    schema = rows_of(chain.end for _, chain in sorted(stage.items()))

    def run(batches: Batches) -> Batches:
        for batch in batches:
            yield _applied(batch, chains, schema)

    return run


class _Share(msgspec.Struct, frozen=True):
    """Rows of a batch after a stage, by their indices before it.

    Those of a relation that has steps are in `rows`; others pass unchanged, or only carry entries of the log.
    """

    at: Numbers
    chain: Chain | None = None
    rows: Rows | None = None
    only_logged: bool = False


def _applied(batch: pa.RecordBatch, chains: Sequence[Chain], schema: pa.Schema) -> pa.RecordBatch:
    relations = batch.column("rel").to_numpy()
    entries, shares = _Entries(), []
    rest = np.ones(len(relations), dtype=bool)
    for chain in chains:
        own = relations == chain.entry.number
        rest &= ~own
        if own.any():
            rows = relation_rows(batch, chain.entry, np.flatnonzero(own))
            for apply in chain.steps:
                if rows.size:
                    rows = apply(entries, rows)
            if rows.size:
                shares.append(_Share(numbers_of(rows.at), chain, rows))
    if rest.any() or not shares:
        shares.append(_Share(np.flatnonzero(rest)))
    return _Joined(batch, shares, entries, schema).batch()


class _Joined:
    """The rows of all relations after a stage as one batch, in the order in which they came."""

    def __init__(self, batch: pa.RecordBatch, shares: Sequence[_Share], entries: _Entries, schema: pa.Schema) -> None:
        self._batch, self._schema = batch, schema
        self._logged = self._all_entries(entries)
        dropped = self._dropped(shares)
        self._shares = [*shares, _Share(dropped, only_logged=True)] if len(dropped) else shares
        self._at = np.concatenate([share.at for share in self._shares])
        ordered = len(self._shares) == 1 or bool((np.diff(self._at) >= 0).all())
        self._order = None if ordered else np.argsort(self._at, kind="stable")

    def _all_entries(self, entries: _Entries) -> Mapping[int, list[dict[str, object]]]:
        """The entries of each row, old ones first."""
        log = self._batch.column("log")
        if not pc.sum(pc.list_value_length(log)).as_py():
            return entries.found
        before = {at: each for at, each in enumerate(log.to_pylist()) if each}
        return {at: [*before.get(at, ()), *entries.found.get(at, ())] for at in {**before, **entries.found}}

    def _dropped(self, shares: Sequence[_Share]) -> Numbers:
        """The rows that are no more, and have entries."""
        left = set(self._logged)
        if left:
            left -= {at for share in shares for at in share.at.tolist() if at in left}
        return np.array(sorted(left), dtype=np.int64)

    def batch(self) -> pa.RecordBatch:
        """Return the batch."""
        made = {"rel": self._relations(), "ordinal": self._ordinals(), "log": self._log()}
        made["ts"] = self._cells("ts", lambda rows: rows.times)
        made["headers"] = self._cells("headers", lambda rows: rows.headers)
        taken = self._at if self._order is None else self._at[self._order]
        for envelope in ENVELOPE_FIELDS:
            if envelope.name not in made:
                made[envelope.name] = values_at(self._batch.column(envelope.name), taken)
        names = set(self._batch.schema.names)
        for column in self._schema:
            if column.name not in made:
                made[column.name] = self._structs(column, known=column.name in names)
        return pa.RecordBatch.from_arrays([made[column.name] for column in self._schema], schema=self._schema)

    def _sorted(self, arrays: Sequence[pa.Array]) -> pa.Array:
        array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        return array if self._order is None else array.take(pa.array(self._order))

    def _relations(self) -> pa.Array:
        before = self._batch.column("rel").to_numpy()
        numbers = [
            np.full(len(share.at), LOG_ONLY, np.int32) if share.only_logged else before[share.at]
            for share in self._shares
        ]
        return self._sorted([pa.array(each, pa.int32()) for each in numbers])

    def _ordinals(self) -> pa.Array:
        ordinals = self._batch.column("ordinal")
        arrays = []
        for share in self._shares:
            own = values_at(ordinals, share.at)
            if share.rows is not None and share.rows.positions is not None:
                pairs = zip(own.to_pylist(), share.rows.positions, strict=True)
                own = pa.array([[*before, *positions] for before, positions in pairs], own.type)
            arrays.append(own)
        return self._sorted(arrays)

    def _cells(self, name: str, of: Callable[[Rows], Cells]) -> pa.Array:
        column = self._batch.column(name)
        return self._sorted(
            [
                values_at(column, share.at) if share.rows is None else _envelope_array(of(share.rows), column.type)
                for share in self._shares
            ]
        )

    def _structs(self, column: pa.Field, *, known: bool) -> pa.Array:
        arrays = []
        for share in self._shares:
            if share.chain is not None and share.rows is not None:
                own = column.name == struct_column(share.chain.end.number)
                arrays.append(
                    relation_structs(_parts(share.rows), share.chain.end)
                    if own
                    else pa.nulls(len(share.at), column.type)
                )
            elif known and not share.only_logged and self._batch.schema.field(column.name).type == column.type:
                arrays.append(values_at(self._batch.column(column.name), share.at))
            else:
                arrays.append(pa.nulls(len(share.at), column.type))
        return self._sorted(arrays)

    def _log(self) -> pa.Array:
        if not self._logged:
            return empty_lists(len(self._at), LOG)
        taken = self._at if self._order is None else self._at[self._order]
        left = dict(self._logged)
        return pa.array([left.pop(at, []) for at in taken.tolist()], LOG)


def _envelope_array(cells: Cells, kind: pa.DataType) -> pa.Array:
    if isinstance(cells, Arrow):
        return cells.array
    if kind == HEADERS:
        return pa.array([[{"key": key, "value": value} for key, value in each] for each in cells.values()], kind)
    return pa.array(cells.values(), kind)


def _parts(rows: Rows) -> Mapping[str, Part | None]:
    return {"k": rows.key, "v": rows.value, "o": rows.old, "ok": rows.old_key, "x": rows.extra}
