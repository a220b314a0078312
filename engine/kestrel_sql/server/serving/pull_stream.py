"""The answer of a pull query as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from kestrel_sql.queries.large_lists import drained
from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.types.schema import Column

_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class PulledRows:
    """The answer of a pull query (`RowStream`), which lets go of the rows that it has given."""

    query_id: str
    columns: tuple[Column, ...]
    kind: QueryKind
    limited: bool
    headers: Mapping[str, str]
    rows: list[Row]

    async def __aiter__(self) -> AsyncIterator[Sequence[Row]]:
        """Give the rows; a batch of many is written, and freed, beside the event loop."""
        rows = drained(self.rows)
        while batch := list(islice(rows, _BATCH)):
            yield batch

    def close(self) -> None:
        """Nothing is held."""
