"""What a stateful operator is: a pure function from (row, state) to output rows, one row at a time.

Nothing here knows Spark. The host (`kestrel_sql.spark.state.host`) calls operators in place order, keeps their state in Spark's
checkpointed store, and stamps outputs with the place and headers of the row that caused them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol

Key = tuple[Any, ...]
Value = tuple[Any, ...]
Window = tuple[int, int]
"""Start and end in ms; a session's end is inclusive."""

State = dict[str, Any]
"""An operator's state, owned by the operator, changed in place: plain values only (None, bool, int, float, str, bytes, Decimal, list,
dict with str, int or bytes keys). Starts as `{}`. Tuples come back as lists after a checkpoint."""

KeyBytes = Callable[[Key], bytes]
"""The serialised form of a key in the operator's internal key format: its identity in a state, and its order."""

RoundTrip = Callable[[Value | None], Value | None]
"""What a stored row looks like when read back (a PROTOBUF store turns nulls into defaults); identity for most formats."""


class Scope(Enum):
    """Which rows must meet in one state: those of a key, all of a task (stream time crosses keys), or all of the query."""

    KEY = "key"
    TASK = "task"
    QUERY = "query"


@dataclass(slots=True)
class Row:
    """One input row.

    `key` is None for a null key. `value` None is a tombstone or a null row. `old` is the previous version of a table's row (None when
    there was none or it is not tracked), `old_key` its group where the row was grouped. `extra` are columns an operator asked
    for (the foreign key). `timestamp` is in ms.
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
    """One output row; `old` is set by operators whose result is a table with tracked old values."""

    key: Key | None
    value: Value | None
    timestamp: int
    window: Window | None = None
    old: Value | None = None


class Operator(Protocol):
    """A stateful operator; made once per query from its step, holding no state of its own."""

    scope: ClassVar[Scope]

    @property
    def key_bytes(self) -> KeyBytes:
        """How the keys of its rows are serialised."""
        ...

    def process(self, row: Row, state: State) -> Iterable[Output]:
        """Handle one row: change `state`, give the outputs in order.

        Raises:
            Exception: whatever an aggregate throws; the host turns it into the failure of this query.
        """
        ...
