from __future__ import annotations

from collections.abc import Callable

import pytest

from kestrel_sql import connect
from kestrel_sql.process import reading


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """What was decoded, in order."""
    found: list[bytes | None] = []
    decoder = reading.decoder

    def counting(spec: reading.SerdeSpec) -> Callable[[bytes | None], object]:
        decode = decoder(spec)

        def counted(data: bytes | None) -> object:
            found.append(data)
            return decode(data)

        return counted

    monkeypatch.setattr(reading, "decoder", counting)
    return found


def test_a_message_is_decoded_once_for_all_queries_that_read_it(decoded: list[bytes | None]) -> None:
    with connect() as engine:
        engine.sql(
            "CREATE STREAM S (K STRING KEY, V INT) WITH (kafka_topic='decoded_once', value_format='JSON', partitions=1);"
            "CREATE STREAM A AS SELECT * FROM S; CREATE STREAM B AS SELECT * FROM S WHERE V > 1;"
            "INSERT INTO S VALUES ('a', 1); INSERT INTO S VALUES ('a', 2);"
        )
        engine.flush()
    assert sorted(decoded) == sorted([b"a", b'{"V":1}', b'{"V":2}'])


def test_no_more_messages_stay_decoded_than_fit(decoded: list[bytes | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_KEPT", 2)
    with connect() as engine:
        engine.sql(
            "CREATE STREAM S (V INT) WITH (kafka_topic='decoded_few', value_format='JSON', partitions=1);"
            "CREATE STREAM A AS SELECT * FROM S; INSERT INTO S VALUES (1);"
            "INSERT INTO S VALUES (2); INSERT INTO S VALUES (3); INSERT INTO S VALUES (1);"
        )
        engine.flush()
    assert [data for data in decoded if data is not None] == [b'{"V":1}', b'{"V":2}', b'{"V":3}', b'{"V":1}']
