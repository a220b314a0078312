"""The figures of queries over the last minutes, for the page."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kestrel_sql.server.service import QueryFigures
from kestrel_sql.server.serving.service import Service

EVERY_S = 5.0
_KEPT = 360

Point = tuple[float, int, int, int]
"""Time (s since the epoch), rows in, rows out, lag in records."""


@dataclass(slots=True)
class History:
    """Samples of every query, half an hour of them."""

    points: dict[str, deque[Point]] = field(default_factory=dict)

    async def sample(self, service: Service) -> None:
        """Take a sample every few seconds, until cancelled."""
        while True:
            self.take((await asyncio.to_thread(service.figures)).queries)
            await asyncio.sleep(EVERY_S)

    def take(self, queries: Sequence[QueryFigures]) -> None:
        """Take a sample of queries, and forget those that are gone."""
        for gone in self.points.keys() - {query.id for query in queries}:
            del self.points[gone]
        for query in queries:
            points = self.points.setdefault(query.id, deque(maxlen=_KEPT))
            points.append((round(time.time(), 1), query.rows_in, query.rows_out, query.lag))

    def of_all(self) -> Mapping[str, Sequence[Point]]:
        """The samples of each query, oldest first."""
        return {query_id: list(points) for query_id, points in self.points.items()}
