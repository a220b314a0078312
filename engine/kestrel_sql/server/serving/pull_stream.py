"""The answer of a pull query as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.types.schema import Column


@dataclass(frozen=True, slots=True)
class PulledRows:
    """The answer of a pull query (`RowStream`): one batch."""

    query_id: str
    columns: tuple[Column, ...]
    kind: QueryKind
    limited: bool
    headers: Mapping[str, str]
    rows: Sequence[Row]

    async def __aiter__(self) -> AsyncIterator[Sequence[Row]]:
        """Give the rows."""
        yield self.rows

    def close(self) -> None:
        """Nothing is held."""
