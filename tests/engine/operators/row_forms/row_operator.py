"""Operators that are written for single rows: the oracle of those over batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kestrel_sql.dataflow.operator_rows import OperatorRows
from kestrel_sql.operators.late_rows import note_row
from kestrel_sql.operators.operator import MOST_OUTPUTS, Key, KeyBytes, Results, RowError, State, Value, Window
from kestrel_sql.operators.row_keys import pack_keys


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


class RowOperator(ABC):
    """An operator that processes the rows of a batch one after the other."""

    __slots__ = ()

    parts: ClassVar[Sequence[int]] = (0,)

    def process(self, rows: Any, state: State) -> Iterator[Results]:
        """Process the rows of a batch: change `state` and return the outputs in order.

        Raises:
            RowError: a row cannot be processed.
        """
        try:
            yield from self._processed(rows, state)
        finally:
            self.pack(state)

    def _processed(self, rows: Any, state: State) -> Iterator[Results]:
        outputs: list[Output] = []
        causes: list[int] = []
        for at, row in enumerate(rows_of(rows) if isinstance(rows, OperatorRows) else rows.rows()):
            try:
                outputs += self.process_row(row, state)
            except Exception as error:
                yield _results(outputs[: len(causes)], causes)
                raise RowError(at) from error
            note_row(state, at)
            causes += [at] * (len(outputs) - len(causes))
            if len(outputs) >= MOST_OUTPUTS:
                yield _results(outputs, causes)
                outputs, causes = [], []
        yield _results(outputs, causes)

    def pack(self, state: State) -> None:  # noqa: B027 - most states are stored as they are
        """Bring a state into the form in which it is stored, once for all rows of a batch."""

    @abstractmethod
    def process_row(self, row: Row, state: State) -> Iterable[Output]:
        """Process one row: change `state` and return the outputs in order."""


def _results(outputs: Sequence[Output], causes: list[int]) -> Results:
    values, old = [output.value for output in outputs], [output.old for output in outputs]
    return Results(
        causes=causes,
        times=[output.timestamp for output in outputs],
        keys=[output.key for output in outputs],
        values={0: [None if value is None else 0 for value in values]},
        old={0: [None if value is None else 0 for value in old]},
        picks=(),
        own=_columns(values),
        old_own=_columns(old),
        windows=[output.window for output in outputs],
    )


def _columns(rows: Sequence[Value | None]) -> list[list[Any]]:
    width = max((len(row) for row in rows if row is not None), default=0)
    return [*map(list, zip(*((None,) * width if row is None else row for row in rows), strict=True))]


def rows_of(given: OperatorRows) -> Iterator[Row]:
    """Yield the rows of a batch one by one."""
    size, nothing = len(given.at), [None] * len(given.at)
    columns = zip(
        given.sides,
        given._keys,
        given._in_order(lambda rows, _: rows.value.rows()),
        given.times,
        given._in_order(lambda rows, _: [None] * rows.size if rows.old is None else rows.old.rows()),
        given._old_keys(),
        given.windows or nothing,
        given._in_order(lambda rows, _: [None] * rows.size if rows.extra is None else rows.extra.rows()),
        given.enters or [True] * size,
        given.leaves or [True] * size,
        strict=True,
    )
    for side, key, value, time, old, old_key, window, extra, enters, leaves in columns:
        yield Row(
            side,
            key,
            value if enters else None,
            time,
            old if leaves else None,
            old_key if leaves else None,
            window,
            extra,
        )


def pack_key(key_bytes: KeyBytes, key: Key, window: Window | None) -> bytes:
    """The bytes of one key and of the bounds of its window, if it has one."""
    (packed,) = pack_keys([key_bytes(key)], [window])
    assert packed is not None
    return packed
