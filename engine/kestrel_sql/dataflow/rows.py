"""The rows that steps pass on, by columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.expressions.columns import Column
from kestrel_sql.operators.operator import OwnColumn
from kestrel_sql.topics.records import LogEntry, Record
from kestrel_sql.types.schema import Column as SchemaColumn

Ordinal = tuple[int, ...]
"""The place of a row: the number of its record in the feed, that of the source among those of the topic, and then
positions among the rows that came from one row."""

Values = tuple[Any, ...]
"""A key, or a version of a value, in column order."""

Indices = Sequence[int]

Schema = Sequence[SchemaColumn]


class Chosen(list[int]):
    """Indices of rows that are kept; `form` is that of a carrier, made once for all columns."""

    __slots__ = ("form",)

    def __init__(self, indices: Iterable[int]) -> None:
        super().__init__(indices)
        self.form: Any = None


class NumberLike(Protocol):
    """A column in the form of NumPy, which takes long to load: a `NumberColumn`."""

    def at(self, indices: Indices) -> NumberLike:
        """The numbers at these indices."""
        ...

    def listed(self) -> list[object]:
        """The numbers as a list, with None for NULL."""
        ...


class Cells(Protocol):
    """The values of a column; a carrier may keep them as an Arrow array until a step asks for them."""

    @property
    def array(self) -> ArrowArray | None:
        """The values as an Arrow array, if they are kept as one."""
        ...

    def values(self) -> Column:
        """Return the values, which nobody changes; NULL in rows that lack the part."""
        ...

    def take(self, at: Indices) -> Cells:
        """Return the values at some indices."""
        ...

    def numbers(self, kind: str | None) -> NumberLike:
        """Return the values as numbers of a type of NumPy; without one, only which are not NULL."""
        ...

    def numbered(self, sources: Sequence[Columns]) -> tuple[Indices, Sequence[int]] | None:
        """Number the rows of `sources`, one after the other, that differ.

        Returns the first of each and the number of each row; None if the carrier does it no sooner than a dictionary.
        This is the first of these columns.
        """
        ...

    def pick(
        self, sources: Sequence[Columns], more: Sequence[Sequence[object]], at: Indices, columns: Schema
    ) -> Columns:
        """Return the columns of rows at some indices of `sources`, one after the other, then `more`; NULL at -1.

        The first of these columns is this one. `columns` are their names and types.
        """
        ...


Columns = Sequence[Cells]
"""Some columns of the same rows."""


class Listed:
    """The values of a column as a list."""

    __slots__ = ("_values",)

    array: ArrowArray | None = None

    def __init__(self, values: Column) -> None:
        self._values = values

    def values(self) -> Column:
        """Return the values."""
        return self._values

    def take(self, at: Indices) -> Cells:
        """Return the values at some indices."""
        values = self._values
        return Listed([values[each] for each in at])

    def numbered(self, sources: Sequence[Columns]) -> None:
        """Leave it to a dictionary."""

    def numbers(self, kind: str | None) -> NumberLike:
        """Return the values as numbers of a type of NumPy; without one, only which are not NULL."""
        # Few rows need none, and NumPy takes long to load.
        from kestrel_sql.operators.number_columns import column_of

        return column_of(self.values(), kind)

    def pick(
        self, sources: Sequence[Columns], more: Sequence[Sequence[object]], at: Indices, columns: Schema
    ) -> Columns:
        """Return the columns of rows at some indices of `sources`, one after the other, then `more`; NULL at -1."""
        found = []
        for place in range(len(columns)):
            own = [
                *chain.from_iterable(source[place].values() for source in sources),
                *(row[place] for row in more),
                None,
            ]
            found.append(Listed([own[each] for each in at]))
        return found


class _OfTuples(Listed):
    """A column of rows that are tuples, listed when a step asks for it."""

    __slots__ = ("_place", "_rows")

    def __init__(self, rows: Sequence[Values | None], place: int) -> None:
        self._rows, self._place = rows, place

    def values(self) -> Column:
        place = self._place
        return [None if row is None else row[place] for row in self._rows]

    def take(self, at: Indices) -> Cells:
        return _OfTuples([self._rows[each] for each in at], self._place)


class NumberCells(Listed):
    """A column of numbers in the form of NumPy, listed when a step asks for it."""

    __slots__ = ("column",)

    def __init__(self, column: OwnColumn) -> None:
        self.column: Any = column

    def values(self) -> Column:
        """Return the values."""
        found: list[Any] = self.column.listed()
        return found

    def take(self, at: Indices) -> Cells:
        """Return the values at some indices."""
        return NumberCells(self.column.at(at))


class Part(msgspec.Struct, frozen=True):
    """The key of each row, or a version of its value.

    Attributes:
        cells: the columns.
        size: the number of rows.
        present: which rows have the part; None if all have it.
    """

    cells: Sequence[Cells]
    size: int
    present: Sequence[bool] | None = None

    @classmethod
    def of(cls, rows: Sequence[Values | None], width: int) -> Part:
        """Return a part of tuples, which are None in the rows that lack it."""
        present = [row is not None for row in rows] if None in rows else None
        return cls([_OfTuples(rows, place) for place in range(width)], len(rows), present)

    @classmethod
    def nothing(cls, size: int, width: int) -> Part:
        """Return a part that all rows lack."""
        return cls([Listed([None] * size)] * width, size, [False] * size)

    def rows(self) -> list[Values | None]:
        """Return the part of each row as a tuple; None where a row lacks it."""
        columns = [cells.values() for cells in self.cells]
        found: list[Values | None] = list(zip(*columns, strict=True)) if columns else [()] * self.size
        if self.present is not None:
            found = [row if there else None for row, there in zip(found, self.present, strict=True)]
        return found

    def indices(self) -> Indices:
        """Return the rows that have the part."""
        return range(self.size) if self.present is None else [at for at, there in enumerate(self.present) if there]

    def has(self, at: int) -> bool:
        """Whether a row has the part."""
        return self.present is None or self.present[at]

    def take(self, at: Indices) -> Part:
        """Return the part of some rows."""
        present = None if self.present is None else [self.present[each] for each in at]
        return Part([cells.take(at) for cells in self.cells], len(at), present)

    def where(self, kept: Sequence[bool | None]) -> Part:
        """Return the part of the same rows, which those that are not kept lack."""
        if self.present is not None:
            kept = [bool(there and keep) for there, keep in zip(self.present, kept, strict=True)]
        return replace(self, present=None if all(kept) else [bool(keep) for keep in kept])

    def select(self, places: Sequence[int]) -> Part:
        """Return some of the columns."""
        return self if len(places) == len(self.cells) else replace(self, cells=[self.cells[at] for at in places])

    def with_cells(self, place: int, cells: Cells) -> Part:
        """Return the part with another column in a place."""
        return replace(self, cells=[*self.cells[:place], cells, *self.cells[place + 1 :]])

    def changed(self, change: Callable[[int, Cells], Column | None]) -> Part:
        """Return the part with other values in the columns for which `change(place, cells)` gives some."""
        cells = []
        for place, old in enumerate(self.cells):
            new = change(place, old)
            cells.append(old if new is None else Listed(new))
        return replace(self, cells=cells)


def numbered(parts: Sequence[Part], columns: Schema) -> tuple[Part, Sequence[int]] | None:
    """Return the rows of some parts that differ, and number all rows, if the carrier does it sooner than a dictionary.

    `columns` are the names and types.
    """
    sources = [part.cells for part in parts]
    found = sources[0][0].numbered(sources) if columns and sources else None
    if found is None:
        return None
    (firsts, numbers), present = found, None
    if any(part.present is not None for part in parts):
        there = chain.from_iterable(part.present or [True] * part.size for part in parts)
        numbers = [number if each else len(firsts) for number, each in zip(numbers, there, strict=True)]
        firsts, present = [*firsts, -1], [*[True] * len(firsts), False]
    return Part(sources[0][0].pick(sources, (), firsts, columns), len(firsts), present), numbers


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a relation.

    Attributes:
        key: their keys.
        value: their values; a row without one is a tombstone, or a NULL row of a stream.
        old: the version of a table's row that each replaces.
        old_key: the group of that version.
        extra: further columns that an operator reads, such as a foreign key.
        times: their timestamps (ms).
        headers: their headers, each a tuple of pairs.
        origin: what the carrier knows of the rows of a batch and no step changes.
        at: the index of each row in `origin`; a range is that of all rows.
        positions: what steps that make several rows of one appended to the ordinal of each row.
    """

    key: Part
    value: Part
    old: Part | None = None
    old_key: Part | None = None
    extra: Part | None = None
    times: Cells
    headers: Cells
    origin: Any
    at: Indices
    positions: Sequence[Ordinal] | None = None

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.at)

    def take(self, kept: Indices) -> Rows:
        """Return some of the rows."""
        if isinstance(kept, range) and len(kept) == self.size:
            return self
        parts = (self.old, self.old_key, self.extra)
        old, old_key, extra = (None if part is None else part.take(kept) for part in parts)
        return Rows(
            key=self.key.take(kept),
            value=self.value.take(kept),
            old=old,
            old_key=old_key,
            extra=extra,
            times=self.times.take(kept),
            headers=self.headers.take(kept),
            origin=self.origin,
            at=kept if isinstance(self.at, range) else Chosen(self.at[each] for each in kept),
            positions=None if self.positions is None else [self.positions[each] for each in kept],
        )

    def where(self, kept: Sequence[object]) -> Rows:
        """Return the rows that are kept."""
        found = Chosen(at for at, keep in enumerate(kept) if keep)
        return self if len(found) == self.size else self.take(found)

    def numbered(self, numbers: Sequence[int]) -> Rows:
        """Append a number to the ordinal of each row."""
        before = self.positions or [()] * self.size
        return replace(self, positions=[(*each, number) for each, number in zip(before, numbers, strict=True)])


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the processing log; what it is about is known elsewhere."""

    kind: int
    logger: str
    message: str
    cause: tuple[str, ...] = ()
    record: str | None = None


class Log(Protocol):
    """Takes the entries of the processing log about the rows of a batch."""

    def add(self, rows: Rows, at: int, entry: Entry) -> None:
        """Add an entry about the row at an index of `rows`."""
        ...


Apply = Callable[[Log, Rows], Rows]
"""A step without state: makes rows of those of the step before it, and logs what failed. It can be pickled."""


class Output(msgspec.Struct):
    """What one query wrote, in order.

    `causes` has the topic, partition and offset of the source record that caused each record.
    """

    records: list[Record] = []
    causes: list[tuple[str, int, int]] = []
    log: list[LogEntry] = []
