from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from kestrel_sql.errors import FormatError, SerdeError
from kestrel_sql.formats.serde import causes
from kestrel_sql.formats.table import decoder, encoder
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct
from tests.engine.formats.samples import ROWS, SCHEMAS, spec

MUTATIONS = 500


@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_round_trip(name: str) -> None:
    made = spec(name, SCHEMAS[name])
    row = ROWS[name]
    data = encoder(made)(row)
    assert decoder(made)(data) == (None if name == "NONE" else row)


@pytest.mark.parametrize("name", SCHEMAS)
def test_null_is_null_in_both_directions(name: str) -> None:
    made = spec(name, SCHEMAS[name])
    assert decoder(made)(None) is None
    assert encoder(made)(None) is None


@pytest.mark.parametrize("name", SCHEMAS)
def test_specs_pickle(name: str) -> None:
    made = spec(name, SCHEMAS[name])
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO"])
def test_rows_of_nulls_round_trip(name: str) -> None:
    made = spec(name, SCHEMAS[name])
    nulls = (None,) * len(made.columns)
    assert decoder(made)(encoder(made)(nulls)) == nulls


@pytest.mark.parametrize("name", ["PROTOBUF", "PROTOBUF_NOSR"])
def test_protobuf_reads_nulls_of_scalars_as_defaults(name: str) -> None:
    made = spec(name, SCHEMAS[name])
    nulls = (None,) * len(made.columns)
    found = decoder(made)(encoder(made)(nulls))
    assert found == (False, 0, 0, 0.0, "", b"", None, None, None, None, [], {}, None, [])


@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO", "PROTOBUF_NOSR"])
def test_unwrapped_null_is_null_bytes(name: str) -> None:
    assert encoder(spec(name, "K INT", unwrapped=True))((None,)) is None


@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO", "PROTOBUF_NOSR"])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("K INT", 7),
        ("K STRING", ""),
        ("K ARRAY<INT>", [1]),
        ("K MAP<STRING, INT>", {"a": 1}),
        ("K STRUCT<X INT>", {"X": 2}),
    ],
)
def test_unwrapped_values_round_trip(name: str, column: str, value: object) -> None:
    made = spec(name, column, unwrapped=True)
    assert decoder(made)(encoder(made)((value,))) == (value,)


def test_an_unknown_format_is_rejected() -> None:
    with pytest.raises(FormatError, match="Unknown format: FOO"):
        decoder(spec("FOO", "A INT"))


def test_causes_are_listed_without_the_error_itself() -> None:
    with pytest.raises(SerdeError) as caught:
        decoder(spec("JSON", "R STRUCT<X ARRAY<INT>>"))(b'{"R": {"X": [1, true]}}')
    assert str(caught.value).endswith("path: $.R.X[1]")
    assert len(causes(caught.value)) == 1


def _mutate(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(5):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << dice.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = dice.choice(
                    [b"\xff" * 9, b"\x80" * 9 + b"\x01", b"\x00", b'"', b"[" * 50, b"\xed\xa0\x80", b"1e999999999"]
                )
            case 3:
                changed[at:at] = changed[dice.randrange(len(changed) + 1) :][:20]
            case _ if changed:
                changed[at % len(changed)] = dice.randrange(256)
            case _:
                changed += b"\x7f"
    return bytes(changed)


@pytest.mark.parametrize("name", SCHEMAS)
def test_mutated_bytes_give_a_row_or_a_serde_error(name: str) -> None:
    made = spec(name, SCHEMAS[name])
    decode, encode = decoder(made), encoder(made)
    original = encode(ROWS[name]) or b"\x00"
    dice = random.Random(20_24)
    for _ in range(MUTATIONS):
        data = _mutate(original, dice)
        try:
            row = decode(data)
        except SerdeError:
            continue
        if row is not None:
            assert all(_fits(column.type, value) for column, value in zip(made.columns, row, strict=True)), (data, row)
            encode(row)


_BITS = {Base.INTEGER: 32, Base.DATE: 32, Base.TIME: 32, Base.BIGINT: 64, Base.TIMESTAMP: 64}
_KINDS = {Base.BOOLEAN: bool, Base.DOUBLE: float, Base.BYTES: bytes}


def _fits(sql_type: SqlType, value: Any) -> bool:
    """Whether Spark can hold the value: integers in range, valid UTF-8, decimals of exactly their scale."""
    match sql_type:
        case _ if value is None:
            return True
        case Primitive(base) if base in _BITS:
            return type(value) is int and -(1 << (_BITS[base] - 1)) <= value < 1 << (_BITS[base] - 1)
        case Primitive(Base.STRING):
            return type(value) is str and value.encode() is not None
        case Primitive(base):
            return type(value) is _KINDS[base]
        case Decimal(precision, scale):
            return -value.as_tuple().exponent == scale and (not value or value.adjusted() < precision - scale)
        case Array(item):
            return type(value) is list and all(_fits(item, each) for each in value)
        case Map(key, item):
            return all(_fits(key, k) and k is not None and _fits(item, each) for k, each in value.items())
        case Struct(fields):
            return list(value) == [f.name for f in fields] and all(_fits(f.type, value[f.name]) for f in fields)
        case _:
            return False
