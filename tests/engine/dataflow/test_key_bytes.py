from __future__ import annotations

import pytest

from kestrel_sql.dataflow.key_bytes import EncodedKey, key_decoder
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import BYTES, DOUBLE, INTEGER, STRING, SqlType


def encoded(name: str, of: SqlType) -> EncodedKey:
    return EncodedKey(SerdeSpec(FormatInfo(name), (Column("K", of, Role.KEY),), side=Side.KEY))


@pytest.mark.rules("F4.3.8")
@pytest.mark.parametrize("of", [STRING, BYTES, INTEGER, DOUBLE])
def test_a_key_of_delimited_that_is_null_has_the_bytes_that_records_have(of: SqlType) -> None:
    key_bytes = encoded("DELIMITED", of)
    assert key_bytes((None,)) == b'""'
    assert key_decoder(key_bytes)(b'""') == (None,)


@pytest.mark.rules("F4.3.7")
@pytest.mark.parametrize(("of", "empty"), [(STRING, ""), (BYTES, b"")])
def test_an_empty_key_of_delimited_has_the_partition_of_one_that_is_null(of: SqlType, empty: object) -> None:
    key_bytes = encoded("DELIMITED", of)
    assert key_bytes((empty,)) == key_bytes((None,))


def test_an_empty_text_of_kafka_has_no_bytes() -> None:
    key_bytes = encoded("KAFKA", STRING)
    assert key_bytes(("",)) == b""
    assert key_decoder(key_bytes)(b"") == ("",)
