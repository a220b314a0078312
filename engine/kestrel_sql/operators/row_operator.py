"""Operators that are written for single rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from kestrel_sql.operators.late_rows import note_row
from kestrel_sql.operators.operator import MOST_OUTPUTS, Batch, Output, Results, Row, RowError, State, Value


class RowOperator(ABC):
    """An operator that processes the rows of a batch one after the other."""

    __slots__ = ()

    parts: ClassVar[Sequence[int]] = (0,)

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Process the rows of a batch: change `state` and return the outputs in order.

        Raises:
            RowError: a row cannot be processed.
        """
        outputs: list[Output] = []
        causes: list[int] = []
        for at, row in enumerate(rows.rows()):
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
