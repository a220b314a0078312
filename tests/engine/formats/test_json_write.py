from __future__ import annotations

import math
import tracemalloc
from decimal import Decimal

import pytest

from kestrel_sql.formats.json.text import write_fast
from kestrel_sql.formats.table import encoder
from tests.engine.formats.samples import spec


@pytest.mark.rules("F4.4.12")
@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("A DOUBLE", 1e10, "1.0E10"),
        ("A DOUBLE", math.nan, '"NaN"'),
        ("A DECIMAL(4, 2)", Decimal("1.20"), "1.20"),
        ("A DECIMAL(9, 8)", Decimal("0E-8"), "0.00000000"),
        ("A BYTES", b"\x01", '"AQ=="'),
        ("A ARRAY<DOUBLE>", [1.0, None], "[1.0,null]"),
        ("A STRUCT<X INT, Y DOUBLE>", {"Y": 2.0, "X": 1}, '{"X":1,"Y":2.0}'),
        ("A STRING", None, "null"),
    ],
)
def test_values(column: str, value: object, text: str) -> None:
    assert encoder(spec("JSON", column))((value,)) == f'{{"A":{text}}}'.encode()


def test_a_message_takes_no_more_memory_than_its_bytes() -> None:
    tracemalloc.start()
    try:
        kept = [write_fast({"A": number}) for number in range(1000)]
        assert tracemalloc.get_traced_memory()[0] < 200 * len(kept)
    finally:
        tracemalloc.stop()


@pytest.mark.rules("U4.9")
@pytest.mark.parametrize("form", ["JSON", "JSON_SR"])
def test_half_of_a_character_is_an_escape(form: str) -> None:
    encode = encoder(spec(form, "A STRING, B ARRAY<STRING>, C DECIMAL(4, 2), D STRUCT<X STRING>"))
    written = encode(("é\ud83d\n", ["\ude00", None, "😀"], Decimal("1.20"), {"X": "\ud83d"}))
    assert written is not None
    assert '{"A":"é\\uD83D\\n","B":["\\uDE00",null,"😀"],"C":1.20,"D":{"X":"\\uD83D"}}'.encode() in written


@pytest.mark.rules("U4.9")
@pytest.mark.parametrize("form", ["AVRO", "PROTOBUF", "PROTOBUF_NOSR"])
def test_half_of_a_character_is_a_question_mark_in_other_formats(form: str) -> None:
    columns = spec(form, "A STRING, B ARRAY<STRING>, M MAP<STRING, STRING>")
    row = ("é\ud83d", ["\ude00", "😀"], {"\ud83d": "\ude00"})
    assert encoder(columns)(row) == encoder(columns)(("é?", ["?", "😀"], {"?": "?"}))
