"""The bounded queue of a push query's client."""

from __future__ import annotations

import asyncio

import pytest

from kestrel_sql.queries.transient import Row
from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.serving.subscribers import Subscriber


def rows(count: int) -> list[Row]:
    return [Row((number,)) for number in range(count)]


def test_a_client_that_takes_no_rows_is_dropped_with_a_message() -> None:
    left: list[Subscriber] = []

    async def scenario() -> None:
        client = Subscriber("q", (), None, 10, left.append)
        assert not client.put(rows(6))
        assert client.put(rows(6))
        assert (client.waiting, client.put(rows(1))) == (0, False)
        with pytest.raises(ApiError, match="takes rows too slowly: more than 10 rows wait for it"):
            async for _ in client:
                pass
        client.close()

    asyncio.run(scenario())
    assert [client.query_id for client in left] == ["q"]


def test_a_client_that_takes_its_rows_may_get_more_than_the_bound() -> None:
    async def scenario() -> int:
        client = Subscriber("q", (), 25, 10, lambda _: None)
        taken = 0
        for _ in range(4):
            # One batch may be larger than the bound.
            assert not client.put(rows(11))
            async for batch in client:
                taken += len(batch)
                break
        assert client.limited
        return taken

    assert asyncio.run(scenario()) == 25
