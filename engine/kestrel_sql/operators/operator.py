"""Defines the interface of stateful operators: a pure function from (row, state) to output rows.

A carrier calls operators row by row in order of the ordinals, keeps their state, and gives outputs the ordinal and the
headers of the row that caused them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol, runtime_checkable

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

RoundTrip = Callable[[Value | None], Value | None]
"""Returns a row as the store's format reads it back: PROTOBUF turns nulls into defaults, most formats do nothing."""


class Scope(Enum):
    """Which rows share a state: the rows of a key, of a task (stream time spans keys), or of the whole query."""

    KEY = "key"
    TASK = "task"
    QUERY = "query"


@dataclass(slots=True)
class Row:
    """One input row.

    Attributes:
        side: the input that the row comes from; in a join 0 is left and 1 is right.
        key: None for a null key.
        value: None for a tombstone or a null row.
        timestamp: ms since the epoch.
        old: the previous version of a table's row; None without one, or if it is not tracked.
        old_key: the group of the previous version, if the row was grouped.
        window: the window of a windowed key.
        extra: further columns that the operator reads, such as a foreign key.
    """

    side: int
    key: Key | None
    value: Value | None
    timestamp: int
    old: Value | None = None
    old_key: Key | None = None
    window: Window | None = None
    extra: Value | None = None


@dataclass(slots=True)
class Output:
    """One output row; operators whose result is a table with tracked old values set `old`."""

    key: Key | None
    value: Value | None
    timestamp: int
    window: Window | None = None
    old: Value | None = None


@runtime_checkable
class PacksState(Protocol):
    """An operator that brings its state into the form in which it is stored."""

    def pack(self, state: State) -> None:
        """Change `state`, once for all rows of a batch."""
        ...


class Operator(Protocol):
    """A stateful operator: a query makes one from its step; the operator holds no state itself."""

    scope: ClassVar[Scope]

    @property
    def key_bytes(self) -> KeyBytes:
        """Serialises the keys of the operator's rows."""
        ...

    def process(self, row: Row, state: State) -> Iterable[Output]:
        """Process one row: change `state` and return the outputs in order.

        Raises:
            Exception: whatever an aggregate raises; the host then fails this query.
        """
        ...
