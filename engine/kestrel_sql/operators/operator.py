"""Defines the interface of stateful operators: a pure function from rows and a state to output rows.

A carrier gives an operator the rows of a batch in the order of their ordinals, keeps its state, and gives outputs the
ordinal and the headers of the row that caused them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec.structs import replace

Key = tuple[Any, ...]
Value = tuple[Any, ...]
Window = tuple[int, int]
"""Start and end in ms; the end of a session window is inclusive."""

State = dict[str, Any]
"""An operator's state, which starts as `{}` and which only the operator changes, in place.

It holds None, bool, int, float, str, bytes, Decimal, list, and dict with str, int or bytes keys. Tuples come back from
a checkpoint as lists.
"""

KeyBytes = Callable[[Key], bytes]
"""Serialises a key in the operator's internal key format; the bytes identify the key in a state and order the keys."""


class Scope(Enum):
    """Which rows share a state: the rows of a key, of a task (stream time spans keys), or of the whole query."""

    KEY = "key"
    TASK = "task"
    QUERY = "query"


MOST_OUTPUTS = 1 << 15
"""An operator hands so many outputs on before it computes more: a row may give thousands."""

Ref = int | Sequence[Any] | None
"""A version of a row, which is not copied: `at`, the index of a row of the batch; `~at`, the version that this row
replaces; the values of a row of the state; or None for no row."""


class OwnColumn(Protocol):
    """A column of results that no row has: a list, or numbers in the form of NumPy."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> OwnColumn: ...


class Batch(Protocol):
    """The rows of an operator's inputs, in the order of their ordinals.

    Attributes:
        sides: the input that each row comes from; in a join 0 is left and 1 is right.
        times: their timestamps (ms).
        windows: the windows of their keys; None if the keys have none.
    """

    sides: Sequence[int]
    times: Sequence[int]
    windows: Sequence[Window | None] | None

    @property
    def present(self) -> Sequence[bool]:
        """Which rows have a value; the others are tombstones, or NULL rows of a stream."""
        ...

    @property
    def has_old(self) -> Sequence[bool]:
        """Which rows have the version that they replace."""
        ...

    def keys(self, *key_bytes: KeyBytes) -> list[bytes | None]:
        """Serialise the keys, with one function for all inputs or one for each; None for a null key."""
        ...

    def by_key(self, key_bytes: KeyBytes, *, old: bool = False) -> tuple[list[bytes | None], Sequence[int]]:
        """Serialise the keys that differ, in order of their first rows, and number the key of each row among them.

        If wanted, those of the `old` versions follow, which rows of a table replace.
        """
        ...

    def extras(self, key_bytes: KeyBytes) -> list[bytes | None]:
        """Serialise the further columns of the rows, such as foreign keys; None where one is NULL or missing."""
        ...

    def column(self, place: int, refs: Sequence[int]) -> Sequence[object]:
        """Return a column of some rows of the only input; `~at` is the version that a row replaces."""
        ...

    def numbers(self, place: int, *, counted: bool = False, old: bool = False) -> Any:
        """Return a column of all rows, or of the versions that they replace, in the form of NumPy.

        NULL without one. Only which values are not NULL, if they are `counted`.
        """
        ...

    def values_at(self, at: Sequence[int]) -> list[list[object]]:
        """Return the values of some rows, which all have one, as a state stores them."""
        ...

    def keys_at(self, at: Sequence[int]) -> list[list[object]]:
        """Return the keys of some rows, which all have one, as a state stores them."""
        ...


class Results(msgspec.Struct):
    """Outputs of an operator, by cause.

    Attributes:
        causes: the index of the row that causes each.
        times: its timestamp (ms).
        keys: the row that has its key: its index in the batch, `~at` for that of the version that a row replaces, or
            the key itself. Empty if all have the keys of the rows that cause them.
        values: for each of the operator's `parts` the row with its columns; an output without any is a tombstone.
        old: the same for the version that it replaces; empty if no output has one.
        picks: which columns of these rows it has; None for all. Rows of the state have no others.
        own: its further columns, which no row has.
        old_own: the same for the version that it replaces.
        old_time: the column of these versions that shows the timestamps of the outputs instead of its own values.
        windows: the window of its key; None if no key has one.
    """

    causes: list[int] = []
    times: list[int] = []
    keys: list[Ref] = []
    values: Mapping[int, list[Ref]] = {}
    old: Mapping[int, list[Ref]] = {}
    picks: Sequence[int] | None = None
    own: Sequence[OwnColumn] = ()
    old_own: Sequence[OwnColumn] = ()
    old_time: int | None = None
    windows: list[Window | None] | None = None

    @classmethod
    def of(cls, *sides: int, old: bool = False, old_time: int | None = None) -> Results:
        """Return no outputs yet; their values have the columns of these inputs, and so have the old ones, if any."""
        return cls(values={side: [] for side in sides}, old={side: [] for side in sides if old}, old_time=old_time)

    def first(self, count: int) -> Results:
        """Return the first outputs."""
        return replace(
            self,
            causes=self.causes[:count],
            times=self.times[:count],
            keys=self.keys[:count],
            values={part: refs[:count] for part, refs in self.values.items()},
            old={part: refs[:count] for part, refs in self.old.items()},
            own=[column[:count] for column in self.own],
            old_own=[column[:count] for column in self.old_own],
            windows=None if self.windows is None else self.windows[:count],
        )

    def with_windows(self, windows: Sequence[Window | None] | None) -> Results:
        """Give each output the window of the row that causes it."""
        if windows is not None:
            self.windows = [windows[at] for at in self.causes]
        return self


class StateEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a state.

    Attributes:
        part: the part of the state that holds it, such as `groups`.
        side: the input of the operator whose key and value columns it has; None for the columns of the output.
        key: the serialised key, without the window.
        value: the value columns.
        window: the window (ms), if the key has one.
        timestamp: ms since the epoch; None if the part stores none.
    """

    part: str
    side: int | None = None
    key: bytes
    value: Value | None
    window: Window | None = None
    timestamp: int | None = None


class RowError(Exception):
    """A row that an operator cannot process; the cause says why."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Operator(Protocol):
    """A stateful operator: a query makes one from its step; the operator holds no state itself."""

    scope: ClassVar[Scope]

    @property
    def key_bytes(self) -> KeyBytes:
        """Serialises the keys of the operator's rows."""
        ...

    @property
    def parts(self) -> Sequence[int]:
        """The inputs whose columns the value of a result has, in this order, before columns of its own."""
        ...

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Process the rows of a batch: change `state` and return the outputs in order.

        Raises:
            RowError: a row cannot be processed, such as one on which an aggregate fails; the host then fails this
                query.
        """
        ...

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the rows of a state; `windowed` says for each input whether its keys have windows."""
        ...
