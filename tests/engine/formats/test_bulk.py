"""A bulk codec either rejects a batch or agrees with the row codec."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pytest
from msgspec.structs import replace

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats import table
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.registered.columns import generated_schema
from kestrel_sql.formats.registered.languages import write_varint
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import bulk_decoder, bulk_encoder
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, INTEGER, STRING, TIME, TIMESTAMP
from tests.engine.formats.samples import spec

PLAIN = "I INT, L BIGINT, D DOUBLE, S STRING, B BOOLEAN"
COLUMNS = {
    "JSON": PLAIN + ", T TIME, DA DATE, TS TIMESTAMP",
    "JSON_SR": PLAIN + ", T TIME, DA DATE, TS TIMESTAMP",
    "AVRO": PLAIN + ", Y BYTES, T TIME, DA DATE, TS TIMESTAMP",
    "PROTOBUF": PLAIN + ", Y BYTES, TS TIMESTAMP, " + ", ".join(f"C{i} INT" for i in range(12)),
    "PROTOBUF_NOSR": PLAIN + ", Y BYTES, TS TIMESTAMP",
}
LETTERS = string.ascii_letters + 'äß"\\\n\t\x00€😀 '


def _value(rng: random.Random, sql_type: Any) -> Any:
    edges: dict[Any, list[Any]] = {
        INTEGER: [0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)],
        BIGINT: [0, 1, -1, 127, 128, 2**63 - 1, -(2**63), 2**40],
        DOUBLE: [0.0, -0.0, 1.0, 0.001, 1e-4, 1e7, 9999999.5, 0.1, 1e300, 123456.789, float("inf"), float("nan")],
        STRING: ["", "a", "x" * 130],
        BOOLEAN: [True, False],
        BYTES: [b"", b"\x00\xff", b"z" * 200],
        TIME: [0, 86_399_999],
        DATE: [0, -1, 19_000],
        TIMESTAMP: [0, -1, 999, 1_700_000_000_123, -(2**40)],
    }
    free: dict[Any, Callable[[], Any]] = {
        INTEGER: lambda: rng.randint(-(2**31), 2**31 - 1),
        BIGINT: lambda: rng.getrandbits(rng.randint(1, 62)) * rng.choice((-1, 1)),
        DOUBLE: lambda: round(rng.uniform(-1e6, 1e6), rng.randint(0, 6)),
        STRING: lambda: "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 8))),
    }
    if sql_type in free and rng.random() < 0.7:
        return free[sql_type]()
    return rng.choice(edges[sql_type])


def rows(serde: SerdeSpec, rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Return random rows; some batches are plain, because a rejected batch compares nothing."""
    nulls = rng.choice((0, 0.2, 1))
    found = []
    for _ in range(count):
        row = [None if rng.random() < nulls else _value(rng, column.type) for column in serde.columns]
        if rng.random() < 0.99:
            row = [1.5 if isinstance(v, float) and not 1e-3 <= abs(v) < 1e7 else v for v in row]
        found.append(tuple(row))
    return found


def arrays(serde: SerdeSpec, data: list[tuple[Any, ...]]) -> list[pa.Array]:
    columns = zip(*data, strict=True)
    return [pa.array(values, type=to_arrow(column.type)) for values, column in zip(columns, serde.columns, strict=True)]


def types(serde: SerdeSpec) -> list[pa.DataType]:
    return [to_arrow(column.type) for column in serde.columns]


def one_by_one(decode: Callable[[bytes], Any], data: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for each in data:
        try:
            found.append(decode(each))
        except SerdeError:
            found.append("error")
    return found


def agree(bulk: Any, serde: SerdeSpec, data: list[bytes]) -> bool:
    """Return whether the bulk codec accepted the batch; fail if it did and the rows differ."""
    try:
        read = bulk(pa.array(data, type=pa.binary()))
    except NotPlainError:
        return False
    assert [repr(row) for row in zip(*(a.to_pylist() for a in read), strict=True)] == [
        repr(row) for row in one_by_one(table.decoder(serde), data)
    ]
    assert [a.type for a in read] == types(serde)
    return True


FEW_OR_MANY = pytest.mark.parametrize("factor", [1, pytest.param(50, marks=pytest.mark.nightly)])
"""How many times as many batches as every change tries."""


@FEW_OR_MANY
@pytest.mark.parametrize("format", COLUMNS)
def test_bulk_encoders_write_the_same_bytes_as_row_codecs(format: str, factor: int) -> None:
    rng, serde, taken = random.Random(5), spec(format, COLUMNS[format]), 0
    bulk, single = bulk_encoder(serde, types(serde)), table.encoder(serde)
    assert bulk is not None
    for _ in range(20 * factor):
        data = rows(serde, rng, rng.choice((1, 3, 20)))
        try:
            written = bulk(arrays(serde, data)).to_pylist()
        except NotPlainError:
            continue
        taken += 1
        assert written == [single(row) for row in data]
    assert taken > 5 * factor


@FEW_OR_MANY
@pytest.mark.parametrize("format", COLUMNS)
def test_bulk_decoders_read_the_same_rows_as_row_codecs(format: str, factor: int) -> None:
    rng, serde, taken = random.Random(6), spec(format, COLUMNS[format]), 0
    bulk, single = bulk_decoder(serde, types(serde)), table.encoder(serde)
    for _ in range(20 * factor):
        data = [single(row) or b"" for row in rows(serde, rng, rng.choice((1, 3, 20)))]
        taken += agree(bulk, serde, data)
    assert taken > 5 * factor


@FEW_OR_MANY
@pytest.mark.parametrize("format", COLUMNS)
def test_mutated_records_are_read_as_by_row_codecs_or_rejected(format: str, factor: int) -> None:
    rng, serde, taken = random.Random(7), spec(format, COLUMNS[format]), 0
    bulk, single = bulk_decoder(serde, types(serde)), table.encoder(serde)
    for _ in range(60 * factor):
        data = [bytearray(single(row) or b"") for row in rows(serde, rng, 2)]
        for each in data:
            if rng.random() < 0.7 and each:
                each[rng.randrange(len(each))] ^= 1 << rng.randrange(8)
            elif rng.random() < 0.3:
                del each[rng.randrange(len(each) + 1) :]
        taken += agree(bulk, serde, [bytes(each) for each in data])
    assert taken > 2 * factor


JSON_TEXTS = [
    b'{"I":1,"I":2}', b'{"I":1,"i":2}', b'{"i":2}', b'{"I":null,"i":1}', b'{"S":"x\ny"}', b'{"S":"\\ud800"}',
    b'{"D":-0}', b'{"D":-0.0}', b'{"D":1e400}', b'{"D":123456789012345678901234567890}', b'{"I":01}',
    b'{"I":1}{"I":2}', b'{"I":[', b'{"I":1}]}', b'{"D":NaN}', b'{"S":"\xff"}', b'{"I":1.0}', b'{"I":3000000000}',
    b'{"S":1}', b'{"I":"1"}', b'{"E":[1,"a"],"I":1}', b'{"E":"2020-01-01","I":1}', b'{"\\u0049":7}',
    b'{"S":"\\u0000x"}', b'{"D":.5}', b'{"I":1,}', b'{}', b'', b'null', b'[]', b' {"I":1}', b'{"I":1} ', b'{"I":1} x',
    b'{"T":-1}', b'{"T":86400000}', b'{"T":86400001}', b'\xef\xbb\xbf{"I":1}',
    b'{"E":' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"E":NaN}', b'{"E":[{"F":-Infinity}]}', b'{"E":1e999}', b'{"E":' + b"1" * 1001 + b"}",
    b'{"E":0.' + b"1" * 1001 + b"}", b'{"E":{"F":1.' + b"0" * 998 + b"}}",
]  # fmt: skip


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_unusual_json_is_read_as_by_the_row_codec_or_rejected(text: bytes) -> None:
    serde = spec("JSON", COLUMNS["JSON"])
    for data in ([text], [text, b'{"I":5}'], [b'{"I":5}', text], [b'{"i":5}', text], [b"{}", text, b'{"I":4}']):
        agree(bulk_decoder(serde, types(serde)), serde, data)


def test_missing_json_members_are_null_and_extra_members_are_ignored() -> None:
    written, wanted = spec("JSON", "ID INT, S STRING, EXTRA DOUBLE"), spec("JSON", "S STRING, NEW BIGINT, ID INT")
    data = [table.encoder(written)((n, "a", 1.5)) or b"" for n in range(3)]
    assert agree(bulk_decoder(wanted, types(wanted)), wanted, data)


def test_columns_that_differ_in_case_only_are_left_to_the_row_codec() -> None:
    serde = spec("JSON", "ID INT, `Mixed` STRING, MIXED STRING")
    assert bulk_decoder(serde, types(serde)) is None


@pytest.mark.parametrize("seconds", [-(2**63), 2**63 - 1, -1, 0, 10**15])
def test_timestamps_out_of_range_are_read_as_by_the_row_codec_or_rejected(seconds: int) -> None:
    serde = spec("PROTOBUF_NOSR", "T TIMESTAMP")
    inner = b"\x08" + write_varint(seconds % 2**64)
    agree(bulk_decoder(serde, types(serde)), serde, [b"\x0a" + write_varint(len(inner)) + inner])


@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_records_are_read_with_the_schema_of_their_writer(format: str) -> None:
    registry = MemoryRegistry()
    written = spec(format, "ID INT, s STRING, EXTRA DOUBLE, B BOOLEAN")
    schema = generated_schema(written)
    registry.register("topic-value", schema.format, schema.text)
    written = replace(written, schemas=registry.snapshot())
    wanted = spec(format, "B BOOLEAN, S STRING, NEW BIGINT, ID BIGINT", schemas=registry.snapshot())
    data = [table.encoder(written)((n, "a" * n, 1.5, n > 1)) or b"" for n in range(3)]
    assert agree(bulk_decoder(wanted, types(wanted)), wanted, data)
    other = spec(format, "ID STRING, S STRING", schemas=registry.snapshot())
    assert not agree(bulk_decoder(other, types(other)), other, data)


def test_names_in_another_case_are_found_in_any_record() -> None:
    serde = spec("JSON", "ID INT, NAME STRING")
    bulk = bulk_decoder(serde, types(serde))
    assert agree(bulk, serde, [orjson.dumps({"id": n, "Name": "x"}) for n in range(3)])
    assert agree(bulk, serde, [b'{"id":1}', b'{"id":2,"name":"y"}'])
    assert not agree(bulk, serde, [b'{"id":1}', b'{"ID":2}'])


@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_records_of_several_schemas_keep_their_order(format: str) -> None:
    rng, registry = random.Random(9), MemoryRegistry()
    versions = [
        spec(format, text) for text in ("ID INT, S STRING", "ID INT, S STRING, MORE DOUBLE", "MORE DOUBLE, ID INT")
    ]
    for each in versions:
        schema = generated_schema(each)
        registry.register("topic-value", schema.format, schema.text)
    wanted = spec(format, "ID INT, S STRING, MORE DOUBLE", schemas=registry.snapshot())
    data = []
    for at in range(40):
        written = replace(rng.choice(versions), schemas=registry.snapshot())
        row = {"ID": at, "S": f"s{at}", "MORE": at / 2}
        data.append(table.encoder(written)(tuple(row[column.name] for column in written.columns)) or b"")
    assert agree(bulk_decoder(wanted, types(wanted)), wanted, data)


def test_an_unknown_schema_is_left_to_the_row_codec() -> None:
    serde = spec("AVRO", "ID INT")
    one = table.encoder(serde)((1,)) or b""
    assert not agree(bulk_decoder(serde, types(serde)), serde, [one, b"\x00\x00\x00\x00\x09" + one[5:]])


def test_doubles_are_written_as_in_java_or_rejected() -> None:
    rng, serde = random.Random(10), spec("JSON", "D DOUBLE")
    bulk, single = bulk_encoder(serde, types(serde)), table.encoder(serde)
    assert bulk is not None
    edges = [
        0.0,
        -0.0,
        1e-3,
        9.99e-4,
        1e7,
        9999999.999999998,
        1e16,
        1e21,
        5e-324,
        1.7e308,
        float("inf"),
        float("-inf"),
        float("nan"),
    ]
    taken = 0
    for value in [*edges, *(rng.choice((-1, 1)) * 10 ** rng.uniform(-5, 9) for _ in range(500))]:
        try:
            written = bulk([pa.array([value])]).to_pylist()
        except NotPlainError:
            continue
        taken += 1
        assert written == [single((value,))]
    assert taken > 200


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "DOUBLE", "STRING"])
def test_kafka_values(kind: str) -> None:
    rng, serde = random.Random(8), spec("KAFKA", f"V {kind}")
    single, write, read = table.encoder(serde), bulk_encoder(serde, types(serde)), bulk_decoder(serde, types(serde))
    assert write is not None
    data = [(_value(rng, serde.columns[0].type) if rng.random() < 0.9 else None,) for _ in range(200)]
    written = write(arrays(serde, data)).to_pylist()
    assert written == [single(row) for row in data]
    assert agree(read, serde, [each for each in written if each is not None])


@pytest.mark.parametrize("text", ["A ARRAY<INT>", "M MAP<STRING, INT>", "N DECIMAL(4, 2)", "R STRUCT<X INT>"])
@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"])
def test_nested_columns_are_left_to_the_row_codec(format: str, text: str) -> None:
    serde = spec(format, text)
    data, bulk = [table.encoder(serde)((None,)) or b""], bulk_decoder(serde, types(serde))
    assert bulk is None or not agree(bulk, serde, data)
    assert bulk_encoder(serde, types(serde)) is None
