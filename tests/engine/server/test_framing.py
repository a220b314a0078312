"""In which chunks the rows of a query are sent, and how the last one ends."""

from __future__ import annotations

import asyncio
import json

import pytest

from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.server.http import websocket
from kestrel_sql.server.http.framing import Framing, frame_of
from kestrel_sql.server.http.queries import row_chunks
from kestrel_sql.server.serving.queries import PulledRows
from kestrel_sql.sql.parse.parser import parse_script
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import INTEGER, STRING


def chunks(framing: Framing, kind: QueryKind, last: bytes) -> list[bytes]:
    rows = PulledRows("q", (Column("A", INTEGER),), kind, False, {}, [Row((1,), False), Row((2,), False)])

    async def collected() -> list[bytes]:
        return [chunk async for chunk in row_chunks(rows, frame_of(framing, rows, last))]

    return asyncio.run(collected())


@pytest.mark.rules("R9.9")
@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("kind", [QueryKind.PULL_TABLE, QueryKind.PULL_STREAM])
def test_header_rows_and_end_are_chunks_of_their_own(framing: Framing, kind: QueryKind) -> None:
    found = chunks(framing, kind, b"]")
    assert len(found) == 4
    assert b'"queryId":"q"' in found[0]


@pytest.mark.rules("R9.9")
def test_only_query_ends_an_array_of_objects_with_a_line_feed_and_no_pull_of_a_table_does() -> None:
    for last in (b"]", b"]\n"):
        assert chunks(Framing.OBJECTS, QueryKind.PULL_STREAM, last)[-1] == b'{"finalMessage":"Query Completed"}' + last
        assert chunks(Framing.OBJECTS, QueryKind.PULL_TABLE, last)[-1] == b"]"


@pytest.mark.rules("R12.1")
@pytest.mark.parametrize(("limit", "shown"), [(None, [1, 3, 5]), (2, [1, 3]), (0, []), (9, [1, 3, 5])])
def test_the_limit_of_a_websocket_counts_no_tombstones(limit: int | None, shown: list[int]) -> None:
    text = f"SELECT * FROM t EMIT CHANGES{'' if limit is None else f' LIMIT {limit}'};"
    (parsed,) = parse_script(text)
    asked, counted = websocket._without_limit(parsed)
    assert (asked.statement.limit, counted) == (None, limit)  # type: ignore[union-attr]
    values = [Row((number,), number % 2 == 0) for number in range(1, 6)]
    rows = PulledRows("q", (Column("A", INTEGER),), QueryKind.PUSH, False, {}, values)

    async def collected() -> list[bytes]:
        return [text async for text in websocket._rows(rows, counted)]

    _, *found = asyncio.run(collected())
    assert [json.loads(text)["row"]["columns"][0] for text in found] == shown


@pytest.mark.rules("U4.9")
@pytest.mark.parametrize("framing", [Framing.DELIMITED, Framing.JSON, Framing.OBJECTS])
def test_half_of_a_character_is_an_escape_in_rows(framing: Framing) -> None:
    rows = PulledRows("q", (Column("A", STRING),), QueryKind.PULL_TABLE, False, {}, [])
    assert b"\\uD83D" in frame_of(framing, rows, b"").rows([Row(("\ud83d",), False)])
