"""Tests pull and push queries over sources FROM KAFKA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.topics.records import Record
from tests.engine.queries.memory_engine import engine_with, tell

SETUP = """
CREATE SOURCE u FROM KAFKA (TOPIC 'u') KEY FORMAT TEXT VALUE FORMAT TEXT INCLUDE OFFSET, HEADERS ENVELOPE UPSERT;
CREATE SOURCE n FROM KAFKA (TOPIC 'u') KEY FORMAT TEXT VALUE FORMAT BYTES INCLUDE KEY;
"""


@pytest.fixture
def engine() -> Iterator[MemoryEngine]:
    with engine_with(SETUP) as made:
        yield made


def feed(engine: MemoryEngine, *pairs: tuple[bytes | None, bytes | None]) -> None:
    for key, value in pairs:
        engine.produce(Record(topic="u", key=key, value=value, timestamp=5, headers=(("h", b"1"),)))


@pytest.mark.spark
def test_a_pull_query_reads_the_last_messages(engine: MemoryEngine) -> None:
    feed(engine, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None))
    assert tell(engine, "SELECT key, text, OFFSET, ARRAY_LENGTH(headers) AS n FROM u;").rows == (("a", "3", 2, 1),)
    assert tell(engine, "SELECT text FROM u WHERE key = 'a';").rows == (("3",),)
    assert len(tell(engine, "SELECT * FROM n EMIT CHANGES LIMIT 3;").rows) == 3


@pytest.mark.rules("K1.4.4")
@pytest.mark.spark
def test_an_error_of_a_null_key_remains_until_it_is_retracted(engine: MemoryEngine) -> None:
    feed(engine, (b"a", b"1"), (None, b"x"))
    with pytest.raises(EngineError, match=r"NULL key in UPSERT source.*u-0 at offset 1"):
        tell(engine, "SELECT * FROM u;")
    feed(engine, (None, None))
    assert tell(engine, "SELECT key FROM u;").rows == (("a",),)


@pytest.mark.rules("K1.4.4")
@pytest.mark.spark
def test_an_error_of_a_value_remains_until_its_key_has_another(engine: MemoryEngine) -> None:
    feed(engine, (b"a", b"1"), (b"b", b"\xff"))
    with pytest.raises(EngineError, match="Failed to decode TEXT"):
        tell(engine, "SELECT * FROM u;")
    feed(engine, (b"b", b"fine"))
    assert len(tell(engine, "SELECT * FROM u;").rows) == 2


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO u (key, text) VALUES ('a', 'b');", "read-only"),
        ("INSERT INTO n SELECT * FROM n;", "read-only"),
        ("ALTER TABLE u ADD COLUMN x INT;", "not supported on source tables"),
        ("DROP TABLE u DELETE TOPIC;", "read-only"),
        ("CREATE SOURCE u FROM KAFKA (TOPIC 'x') FORMAT TEXT;", "A table with the same name already exists"),
        (
            "CREATE OR REPLACE STREAM n (v INT) WITH (kafka_topic='x', value_format='JSON');",
            "not supported on source streams",
        ),
        ("CREATE STREAM o WITH (headers='nope') AS SELECT * FROM n;", r"HEADERS column \(NOPE\) is unknown"),
    ],
)
def test_statements_that_such_a_source_does_not_allow(engine: MemoryEngine, statement: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        tell(engine, statement)


def test_it_is_described_like_any_other(engine: MemoryEngine) -> None:
    names = [row[0] for row in tell(engine, "DESCRIBE u;").rows]
    assert names == ["KEY", "TEXT", "OFFSET", "HEADERS"]
    assert (
        tell(engine, "CREATE SOURCE IF NOT EXISTS u FROM KAFKA (TOPIC 'x') FORMAT TEXT;").message
        == "Cannot add table `U`: A table with the same name already exists."
    )
