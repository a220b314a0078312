"""The clients of push queries: bounded queues, and the rows that each gets."""

from __future__ import annotations

import asyncio
import socket
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrel_sql.queries.transient import Row, plan_query
from kestrel_sql.server.broker.push_queries import BrokerPush
from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.open import Running
from kestrel_sql.server.serving.push_clients import Subscriber
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query
from tests.engine.server.servers import ksql
from tests.engine.server.test_queries import eventually


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


def test_a_client_that_does_not_read_its_socket_is_dropped_and_told(idle: Running) -> None:
    ksql(idle.url, "CREATE STREAM slow (t STRING) WITH (KAFKA_TOPIC='slow', VALUE_FORMAT='JSON', PARTITIONS=1);")
    body = b'{"sql":"SELECT t FROM slow EMIT CHANGES;"}'
    head = b"POST /query-stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.connect(("127.0.0.1", idle.listener.port))
        connection.sendall(head + body)
        assert b"200" in connection.recv(4096)
        pushes = idle.service._pushes
        ((_, client),) = pushes._clients.values()
        batch = [Row(("x" * 1000,))] * 1000
        given = 0
        while not client.put(batch):
            given += 1
            assert given < 200, "a client that reads nothing is never dropped"
            time.sleep(0.01)
        connection.settimeout(60)
        answer = b""
        while b"takes rows too slowly" not in answer:
            piece = connection.recv(1 << 20)
            assert piece, answer[-200:]
            answer = answer[-200:] + piece
    eventually(lambda: pushes.clients == 0)


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


def written(ordinal: int, position: tuple[str, int], offset: int | None, kind: int | None = None) -> dict[str, Any]:
    entry = dict.fromkeys(("logger", "message", "cause", "record"), "")
    place = {"src_topic": position[0], "src_part": position[1], "src_off": offset}
    value = b'{"ID":%d}' % ordinal
    return {
        "q": 0,
        "kind": kind,
        "ordinal": ordinal,
        "topic": "x",
        "key": None,
        "value": value,
        "timestamp": 0,
        "headers": None,
        **place,
        **entry,
    }


def test_a_client_that_comes_later_gets_no_row_of_a_record_that_came_before() -> None:
    session = Session()
    for parsed in session.parse("CREATE STREAM s (id INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2);"):
        session.execute(parsed)
    (parsed,) = session.parse("SELECT id FROM s EMIT CHANGES;")
    assert isinstance(parsed.statement, Query)
    planned = plan_query(parsed.statement, session.catalog, session.config, "q", session.functions)

    def batch(*rows: dict[str, Any]) -> Any:
        return SimpleNamespace(toArrow=lambda: SimpleNamespace(to_pylist=lambda: list(rows)))

    async def taken(client: Subscriber) -> list[Any]:
        client.end()
        return [row.values[0] async for rows in client for row in rows]

    async def scenario() -> tuple[list[Any], list[Any]]:
        one, two = (Subscriber(name, planned.columns, None, 100, lambda _: None) for name in "ab")
        zero, first = ("s", 0), ("s", 1)
        one.begin, two.begin = {zero: 0, first: 0}, {zero: 5, first: 2}
        push = BrokerPush(
            key="k", planned=planned, config=session.config, text="", start=one.begin, is_paced=False, bound=100,
            count=lambda rows, dropped: None, note=lambda entries: None, subscribers=[one, two],
        )  # fmt: skip
        push.pipeline = cast(Any, SimpleNamespace(graph=SimpleNamespace(ends=[SimpleNamespace(window=None)])))
        push.collect(batch(written(1, zero, 4), written(2, first, 2), written(3, zero, 5)), 0)
        push.collect(batch(written(4, zero, 6), written(5, first, 3)), 1)
        return await taken(one), await taken(two)

    assert asyncio.run(scenario()) == ([1, 2, 3, 4, 5], [2, 3, 4, 5])
