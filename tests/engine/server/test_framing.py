"""In which chunks the rows of a query are sent, and how the last one ends."""

from __future__ import annotations

import asyncio

import pytest

from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.server.http.framing import Framing, frame_of
from kestrel_sql.server.http.queries import row_chunks
from kestrel_sql.server.serving.pulled import PulledRows
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import INTEGER


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
