"""Rows of relations in the form that operators take, and the outputs of operators as rows again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.key_bytes import EncodedKey
from kestrel_sql.dataflow.rows import (
    Cells,
    Chosen,
    Columns,
    Indices,
    Listed,
    NumberCells,
    NumberLike,
    Part,
    Rows,
    numbered,
)
from kestrel_sql.operators.late_rows import Late, take
from kestrel_sql.operators.operator import (
    Key,
    KeyBytes,
    OwnColumn,
    Ref,
    Results,
    RowError,
    Scope,
    State,
    Window,
)
from kestrel_sql.operators.state_codec import bucket_rows
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import DOUBLE, INTEGER, SqlType

_NOTHING = -1
"""The place of a missing row."""

_NUMBERS: Mapping[SqlType, str] = {INTEGER: "int32", DOUBLE: "float64"}
"""The NumPy types of numbers that are not 64-bit integers."""


@dataclass(slots=True, kw_only=True)
class OperatorRows:
    """The rows of a batch as an operator takes them.

    Attributes:
        stateful: the operator.
        inputs: the rows of each input; None for an input without rows.
        sides: the input of each row, in the order in which the operator takes them.
        at: its index among the rows of its input.
        enters: of the changes of a table, which put a row into its new group; None if all do.
        leaves: which take a row from its old group; None if all do.
        windows: the windows of the keys; None if no key has one.
    """

    stateful: Stateful
    inputs: Sequence[Rows | None]
    sides: Sequence[int]
    at: Indices
    enters: Sequence[bool] | None = None
    leaves: Sequence[bool] | None = None
    windows: Sequence[Window | None] | None = None
    times: Sequence[int] = field(init=False)
    _tuples: Sequence[Key | None] | None = field(init=False, default=None)
    _chosen: tuple[Sequence[Ref], Indices, int, Chosen] | None = field(init=False, default=None)
    """What was looked up last, and where it is: keys and values of outputs may have the same references."""

    def __post_init__(self) -> None:
        self.times = self._in_order(lambda rows, _: rows.times.values())

    @property
    def _keys(self) -> Sequence[Key | None]:
        if self._tuples is None:
            found = self._in_order(lambda rows, side: rows.key.rows())
            if self.enters is not None:
                found = [key if enters else None for key, enters in zip(found, self.enters, strict=True)]
            self._tuples = found
        return self._tuples

    @property
    def present(self) -> Sequence[bool]:
        """Which rows have a value."""
        found: Sequence[bool] = self._in_order(lambda rows, _: _present(rows.value, rows))
        return _both(found, self.enters)

    @property
    def has_old(self) -> Sequence[bool]:
        """Which rows have the version that they replace."""
        found: Sequence[bool] = self._in_order(lambda rows, _: _present(rows.old, rows))
        return _both(found, self.leaves)

    def keys(self, *key_bytes: KeyBytes) -> list[bytes | None]:
        """Serialise the keys, with one function for all inputs or one for each; None for a null key."""
        if len(key_bytes) == 1:
            return _names(self._keys, key_bytes[0])
        names = zip(*(_names(self._of_side(side), write) for side, write in enumerate(key_bytes)), strict=True)
        return [own[side] for side, own in zip(self.sides, names, strict=True)]

    def _old_keys(self) -> Sequence[Key | None]:
        found: Sequence[Key | None] = self._in_order(
            lambda rows, side: [None] * rows.size if rows.old_key is None else rows.old_key.rows()
        )
        return found

    def by_key(self, key_bytes: KeyBytes, *, old: bool = False) -> tuple[list[bytes | None], Sequence[int]]:
        """Serialise the keys that differ, in order of their first rows, and number the key of each row among them.

        If wanted, those of the `old` versions follow, which rows of a table replace.
        """
        if isinstance(self.at, range) and isinstance(key_bytes, EncodedKey) and key_bytes.exact:
            (rows,), (relation,) = self.inputs, self.stateful.inputs
            parts = [] if rows is None else [rows.key, rows.old_key] if old else [rows.key]
            found = numbered([part for part in parts if part is not None], relation.schema.key)
            if found is not None and None not in parts:
                keys, numbers = found
                return _names(keys.rows(), key_bytes), numbers
        names = self.keys(key_bytes)
        if old:
            names += _names(self._old_keys(), key_bytes)
        places = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return [*places], [places[name] for name in names]

    def _of_side(self, side: int) -> list[Key | None]:
        """The keys, without those of other inputs."""
        return [key if own == side else None for own, key in zip(self.sides, self._keys, strict=True)]

    def extras(self, key_bytes: KeyBytes) -> list[bytes | None]:
        """Serialise the further columns of the rows; None where one is NULL or missing."""
        found: list[bytes | None] = self._in_order(lambda rows, _: _names(_extras(rows), key_bytes))
        return found

    def column(self, place: int, refs: Sequence[int]) -> Sequence[object]:
        """Return a column of some rows of the only input; `~at` is the version that a row replaces."""
        (rows,), column = self.inputs, self.stateful.inputs[0].schema.value[place]
        if rows is not None and isinstance(self.at, range) and refs == self.at:
            return rows.value.cells[place].values()
        (cells,), _ = self._side(refs, 0, [column], [place])
        return cells.values()

    def numbers(self, place: int, *, counted: bool = False, old: bool = False) -> NumberLike:
        """Return a column of all rows, or of the versions that they replace, in the form of NumPy.

        NULL without one. Only which values are not NULL, if they are `counted`.
        """
        (rows,), (relation,) = self.inputs, self.stateful.inputs
        kind = None if counted else _NUMBERS.get(relation.schema.value[place].type, "int64")
        found = _version_of(rows, old).cells[place].numbers(kind)
        return found if isinstance(self.at, range) else found.at(self.at)

    def values_at(self, at: Sequence[int]) -> list[list[object]]:
        """Return the values of some rows, which all have one, as a state stores them."""
        return self._listed(at, lambda rows: rows.value)

    def keys_at(self, at: Sequence[int]) -> list[list[object]]:
        """Return the keys of some rows, which all have one, as a state stores them."""
        return self._listed(at, lambda rows: rows.key)

    def outputs(self, results: Results) -> tuple[Part, Part, Part | None]:
        """Return the keys of outputs, their values, and the versions that they replace, if the relation has those."""
        size, old = len(results.causes), None
        if self.stateful.output.has_old:
            old = self._version(results.old, results.old_own, results, size)
            if results.old_time is not None:
                old = old.with_cells(results.old_time, Listed(results.times))
        return self._key(results), self._version(results.values, results.own, results, size), old

    def _in_order(self, of: Callable[[Rows, int], Sequence[object]]) -> Any:
        """What each row has, in order, of what the rows of each input have; `of` also takes the number of the input."""
        found = [() if rows is None else of(rows, side) for side, rows in enumerate(self.inputs)]
        if len(found) == 1:
            return found[0] if isinstance(self.at, range) else [found[0][at] for at in self.at]
        return [found[side][at] for side, at in zip(self.sides, self.at, strict=True)]

    def _listed(self, at: Sequence[int], part: Callable[[Rows], Part]) -> list[list[object]]:
        found: list[list[Any]] = [[]] * len(at)
        for side, rows in enumerate(self.inputs):
            own = [place for place, each in enumerate(at) if self.sides[each] == side]
            if rows is None or not own:
                continue
            for place, row in zip(own, part(rows).take([self.at[at[each]] for each in own]).rows(), strict=True):
                found[place] = [*(row or ())]
        return found

    def _key(self, results: Results) -> Part:
        """The keys of outputs."""
        columns = self.stateful.output.schema.key
        kinds = [column.type for column in columns]
        refs: Sequence[Ref] = results.keys or results.causes
        # A foreign-key join has keys of the left table only.
        given = [
            (side, rows)
            for side, (rows, relation) in enumerate(zip(self.inputs, self.stateful.inputs, strict=True))
            if rows is not None and [column.type for column in relation.schema.key] == kinds
        ]
        starts, size = [0] * len(self.inputs), 0
        for side, rows in given:
            starts[side] = size
            size += rows.size
        at = self.at
        if len(given) > 1:
            at = [starts[side] + each for side, each in zip(self.sides, at, strict=True)]
        parts = [rows.key for _, rows in given]
        parts += [rows.old_key for _, rows in given if rows.old_key is not None]
        places, more = self._places(refs, at, size, sum(part.size for part in parts))
        cells = _picked([part.cells for part in parts], more, places, columns)
        present: list[bool] | None = None
        if not isinstance(refs, range) and (None in refs or (not results.keys and None in self._keys)):
            keys = self._keys
            present = [ref < 0 or keys[ref] is not None if isinstance(ref, int) else ref is not None for ref in refs]
        return Part(cells, len(refs), present)

    def _version(
        self, values: Mapping[int, Sequence[Ref]], own: Sequence[OwnColumn], results: Results, size: int
    ) -> Part:
        """A version of the values of outputs."""
        columns = self.stateful.output.schema.value
        cells: list[Cells] = []
        taken = []
        if not values:
            return Part.nothing(size, len(columns))
        for side in self.stateful.operator.parts:
            found, places = self._side(values[side], side, columns[len(cells) :], results.picks)
            taken.append(places)
            cells += found
        cells += [Listed(column) if isinstance(column, list) else NumberCells(column) for column in own]
        cells += [Listed([None] * size)] * (len(columns) - len(cells))
        return Part(cells, size, _there(taken))

    def _side(
        self, refs: Sequence[Ref], side: int, columns: Sequence[Column], picks: Sequence[int] | None
    ) -> tuple[list[Cells], Indices]:
        """The columns of an input in outputs, and where they are from."""
        rows, own = self.inputs[side], self.stateful.inputs[side].schema.value
        versions = [] if rows is None else [each for each in (rows.value, rows.old) if each is not None]
        size = 0 if rows is None else rows.size
        places, more = self._places(refs, self.at, size, size * len(versions))
        picked = range(len(own)) if picks is None else picks
        results = columns[: len(picked)]
        sources = [
            [_as(version.cells[at], own[at], result) for at, result in zip(picked, results, strict=False)]
            for version in versions
        ]
        return [*_picked(sources, more, places, results)], places

    def _places(
        self, refs: Sequence[Ref], at: Indices, size: int, before: int
    ) -> tuple[Indices, list[Sequence[object]]]:
        """Where rows are, and the rows of the state among them.

        Args:
            refs: the rows.
            at: the place of each row of the batch.
            size: the number of these, behind which are those that they replace.
            before: the number of both, behind which are rows of the state.
        """
        more: list[Sequence[Any]] = []
        if isinstance(refs, range):
            return at if len(refs) == len(at) else at[: len(refs)], more
        if self._chosen is not None:
            looked_up, indices, number, places = self._chosen
            if looked_up is refs and indices is at and number == size:
                return places, more
        if {*map(type, refs)} <= {int}:
            own: Any = refs
            if isinstance(at, range):
                places = Chosen([ref if ref >= 0 else size + ~ref for ref in own])
            else:
                places = Chosen([at[ref] if ref >= 0 else size + at[~ref] for ref in own])
            self._chosen = refs, at, size, places
            return places, more
        places, known = Chosen(()), dict[int, int]()
        add = places.append
        for ref in refs:
            if isinstance(ref, int):
                add(at[ref] if ref >= 0 else size + at[~ref])
            elif ref is None:
                add(_NOTHING)
            else:
                place = known.get(id(ref))
                if place is None:
                    place = known[id(ref)] = before + len(more)
                    more.append(ref)
                add(place)
        return places, more


def _picked(
    sources: Sequence[Columns], more: Sequence[Sequence[object]], places: Indices, columns: Sequence[Column]
) -> Columns:
    """The columns of rows of `sources`, one after the other, and `more`; rows without columns have none."""
    if not columns:
        return []
    first = sources[0][0] if sources else Listed([])
    return first.pick(sources, more, places, columns)


def _as(cells: Cells, column: Column, result: Column) -> Cells:
    """The values of a column as those of a result, in which they may have another form."""
    return cells if column.type == result.type else Listed(cells.values())


def _there(places: Sequence[Sequence[int]]) -> list[bool] | None:
    """Which outputs have a part of a version; None if all have."""
    if any(isinstance(each, range) or _NOTHING not in each for each in places):
        return None
    if len(places) == 1:
        return [place != _NOTHING for place in places[0]]
    return [any(place != _NOTHING for place in each) for each in zip(*places, strict=True)]


def _present(part: Part | None, rows: Rows) -> Sequence[bool]:
    if part is None:
        return [False] * rows.size
    return [True] * rows.size if part.present is None else part.present


def _version_of(rows: Rows | None, old: bool) -> Part:
    found = None if rows is None else rows.old if old else rows.value
    assert found is not None  # noqa: S101 - only an aggregate of a table asks for versions that were replaced
    return found


def _both(there: Sequence[bool], wanted: Sequence[bool] | None) -> Sequence[bool]:
    return there if wanted is None else [own and each for own, each in zip(there, wanted, strict=True)]


def _extras(rows: Rows) -> Sequence[Key | None]:
    if rows.extra is None:
        return [None] * rows.size
    return [None if row is None or None in row else row for row in rows.extra.rows()]


def _names(keys: Sequence[Key | None], key_bytes: KeyBytes) -> list[bytes | None]:
    if isinstance(key_bytes, EncodedKey):
        return key_bytes.many(keys)
    return [None if key is None else key_bytes(key) for key in keys]


def finish(stateful: Stateful, state: State) -> Late | None:
    """Bring the state of an operator into the form in which it is stored, and return what it noted of late rows."""
    late = take(state)
    if stateful.operator.scope is not Scope.TASK:
        # Operators over time keep rows in an order, and need them all.
        bucket_rows(state)
    return late


def positions_of(causes: Sequence[int]) -> list[int]:
    """Return the position of each output among those of its cause."""
    found, last, position = [], None, 0
    for cause in causes:
        position = position + 1 if cause == last else 0
        found.append(position)
        last = cause
    return found


def failure(error: Exception) -> tuple[int, Exception]:
    """Return the row on which an operator failed, and why."""
    if isinstance(error, RowError) and isinstance(error.__cause__, Exception):
        return error.at, error.__cause__
    return 0, error
