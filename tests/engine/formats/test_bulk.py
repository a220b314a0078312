"""What a bulk codec takes, it reads and writes as the codec of single records does."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats import table
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.bulk.table import bulk_decoder, bulk_encoder
from kestrel_sql.formats.registered.columns import own_schema
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.spark.types import to_arrow
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


def _value(made: random.Random, sql_type: Any) -> Any:
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
        INTEGER: lambda: made.randint(-(2**31), 2**31 - 1),
        BIGINT: lambda: made.getrandbits(made.randint(1, 62)) * made.choice((-1, 1)),
        DOUBLE: lambda: round(made.uniform(-1e6, 1e6), made.randint(0, 6)),
        STRING: lambda: "".join(made.choice(LETTERS) for _ in range(made.randint(0, 8))),
    }
    if sql_type in free and made.random() < 0.7:
        return free[sql_type]()
    return made.choice(edges[sql_type])


def rows(given: SerdeSpec, made: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of which some are plain throughout: whole batches must get through, or nothing would be compared."""
    nulls = made.choice((0, 0.2, 1))
    found = []
    for _ in range(count):
        row = [None if made.random() < nulls else _value(made, column.type) for column in given.columns]
        if made.random() < 0.99:
            row = [1.5 if isinstance(v, float) and not 1e-3 <= abs(v) < 1e7 else v for v in row]
        found.append(tuple(row))
    return found


def arrays(given: SerdeSpec, data: list[tuple[Any, ...]]) -> list[pa.Array]:
    columns = zip(*data, strict=True)
    return [pa.array(values, type=to_arrow(column.type)) for values, column in zip(columns, given.columns, strict=True)]


def types(given: SerdeSpec) -> list[pa.DataType]:
    return [to_arrow(column.type) for column in given.columns]


def one_by_one(decode: Callable[[bytes], Any], data: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for each in data:
        try:
            found.append(decode(each))
        except SerdeError:
            found.append("error")
    return found


def agree(bulk: Any, given: SerdeSpec, data: list[bytes]) -> bool:
    """Whether the bulk codec took the batch; fails if it did and read something else."""
    try:
        read = bulk(pa.array(data, type=pa.binary()))
    except NotPlainError:
        return False
    assert [repr(row) for row in zip(*(a.to_pylist() for a in read), strict=True)] == [
        repr(row) for row in one_by_one(table.decoder(given), data)
    ]
    assert [a.type for a in read] == types(given)
    return True


@pytest.mark.parametrize("format", COLUMNS)
def test_rows_written_in_bulk_are_the_bytes_of_single_rows(format: str) -> None:
    made, given, taken = random.Random(5), spec(format, COLUMNS[format]), 0
    bulk, single = bulk_encoder(given, types(given)), table.encoder(given)
    assert bulk is not None
    for _ in range(150):
        data = rows(given, made, made.choice((1, 3, 20)))
        try:
            written = bulk(arrays(given, data)).to_pylist()
        except NotPlainError:
            continue
        taken += 1
        assert written == [single(row) for row in data]
    assert taken > 50


@pytest.mark.parametrize("format", COLUMNS)
def test_records_read_in_bulk_are_the_rows_of_single_records(format: str) -> None:
    made, given, taken = random.Random(6), spec(format, COLUMNS[format]), 0
    bulk, single = bulk_decoder(given, types(given)), table.encoder(given)
    for _ in range(150):
        data = [single(row) or b"" for row in rows(given, made, made.choice((1, 3, 20)))]
        taken += agree(bulk, given, data)
    assert taken > 50


@pytest.mark.parametrize("format", COLUMNS)
def test_mutated_records_are_read_as_single_ones_are_or_refused(format: str) -> None:
    made, given, taken = random.Random(7), spec(format, COLUMNS[format]), 0
    bulk, single = bulk_decoder(given, types(given)), table.encoder(given)
    for _ in range(600):
        data = [bytearray(single(row) or b"") for row in rows(given, made, 2)]
        for each in data:
            if made.random() < 0.7 and each:
                each[made.randrange(len(each))] ^= 1 << made.randrange(8)
            elif made.random() < 0.3:
                del each[made.randrange(len(each) + 1) :]
        taken += agree(bulk, given, [bytes(each) for each in data])
    assert taken > 20


JSON_TEXTS = [
    b'{"I":1,"I":2}', b'{"I":1,"i":2}', b'{"i":2}', b'{"I":null,"i":1}', b'{"S":"x\ny"}', b'{"S":"\\ud800"}', b'{"D":-0}', b'{"D":-0.0}',
    b'{"D":1e400}', b'{"D":123456789012345678901234567890}', b'{"I":01}', b'{"I":1}{"I":2}', b'{"I":[', b'{"I":1}]}', b'{"D":NaN}',
    b'{"S":"\xff"}', b'{"I":1.0}', b'{"I":3000000000}', b'{"S":1}', b'{"I":"1"}', b'{"E":[1,"a"],"I":1}', b'{"E":"2020-01-01","I":1}',
    b'{"\\u0049":7}', b'{"S":"\\u0000x"}', b'{"D":.5}', b'{"I":1,}', b'{}', b'', b'null', b'[]', b' {"I":1}', b'{"I":1} ', b'{"I":1} x',
    b'{"T":-1}', b'{"T":86400000}', b'{"T":86400001}', b'\xef\xbb\xbf{"I":1}', b'{"E":' + b"[" * 70 + b"]" * 70 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_unusual_json_is_read_as_single_records_are_or_refused(text: bytes) -> None:
    given = spec("JSON", COLUMNS["JSON"])
    for data in ([text], [text, b'{"I":5}'], [b'{"I":5}', text], [b'{"i":5}', text], [b"{}", text, b'{"I":4}']):
        agree(bulk_decoder(given, types(given)), given, data)


def test_columns_that_json_lacks_are_null_and_extra_members_are_left_out() -> None:
    written, wanted = spec("JSON", "ID INT, S STRING, EXTRA DOUBLE"), spec("JSON", "S STRING, NEW BIGINT, ID INT")
    data = [table.encoder(written)((n, "a", 1.5)) or b"" for n in range(3)]
    assert agree(bulk_decoder(wanted, types(wanted)), wanted, data)


@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_records_of_another_schema_are_read_with_it(format: str) -> None:
    registry = MemoryRegistry()
    written = spec(format, "ID INT, s STRING, EXTRA DOUBLE, B BOOLEAN")
    schema = own_schema(written)
    registry.register("topic-value", schema.format, schema.text)
    written = replace(written, schemas=registry.snapshot())
    wanted = spec(format, "B BOOLEAN, S STRING, NEW BIGINT, ID BIGINT", schemas=registry.snapshot())
    data = [table.encoder(written)((n, "a" * n, 1.5, n > 1)) or b"" for n in range(3)]
    assert agree(bulk_decoder(wanted, types(wanted)), wanted, data)
    other = spec(format, "ID STRING, S STRING", schemas=registry.snapshot())
    assert not agree(bulk_decoder(other, types(other)), other, data)


def test_names_in_another_case_are_found_in_whichever_record_they_stand() -> None:
    given = spec("JSON", "ID INT, NAME STRING")
    bulk = bulk_decoder(given, types(given))
    assert agree(bulk, given, [orjson.dumps({"id": n, "Name": "x"}) for n in range(3)])
    assert agree(bulk, given, [b'{"id":1}', b'{"id":2,"name":"y"}'])
    assert not agree(bulk, given, [b'{"id":1}', b'{"ID":2}'])


@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_records_of_several_schemas_keep_their_order(format: str) -> None:
    made, registry = random.Random(9), MemoryRegistry()
    versions = [
        spec(format, text) for text in ("ID INT, S STRING", "ID INT, S STRING, MORE DOUBLE", "MORE DOUBLE, ID INT")
    ]
    for each in versions:
        schema = own_schema(each)
        registry.register("topic-value", schema.format, schema.text)
    wanted = spec(format, "ID INT, S STRING, MORE DOUBLE", schemas=registry.snapshot())
    data = []
    for at in range(40):
        written = replace(made.choice(versions), schemas=registry.snapshot())
        row = {"ID": at, "S": f"s{at}", "MORE": at / 2}
        data.append(table.encoder(written)(tuple(row[column.name] for column in written.columns)) or b"")
    assert agree(bulk_decoder(wanted, types(wanted)), wanted, data)


def test_a_schema_that_nobody_has_is_left_to_single_records() -> None:
    given = spec("AVRO", "ID INT")
    one = table.encoder(given)((1,)) or b""
    assert not agree(bulk_decoder(given, types(given)), given, [one, b"\x00\x00\x00\x00\x09" + one[5:]])


def test_doubles_are_written_as_java_writes_them_or_refused() -> None:
    made, given = random.Random(10), spec("JSON", "D DOUBLE")
    bulk, single = bulk_encoder(given, types(given)), table.encoder(given)
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
    for value in [*edges, *(made.choice((-1, 1)) * 10 ** made.uniform(-5, 9) for _ in range(500))]:
        try:
            written = bulk([pa.array([value])]).to_pylist()
        except NotPlainError:
            continue
        taken += 1
        assert written == [single((value,))]
    assert taken > 200


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "DOUBLE", "STRING"])
def test_kafka_values_in_bulk(kind: str) -> None:
    made, given = random.Random(8), spec("KAFKA", f"V {kind}")
    single, write, read = table.encoder(given), bulk_encoder(given, types(given)), bulk_decoder(given, types(given))
    assert write is not None
    data = [(_value(made, given.columns[0].type) if made.random() < 0.9 else None,) for _ in range(200)]
    written = write(arrays(given, data)).to_pylist()
    assert written == [single(row) for row in data]
    assert agree(read, given, [each for each in written if each is not None])


@pytest.mark.parametrize("text", ["A ARRAY<INT>", "M MAP<STRING, INT>", "N DECIMAL(4, 2)", "R STRUCT<X INT>"])
@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"])
def test_nested_columns_are_left_to_single_records(format: str, text: str) -> None:
    given = spec(format, text)
    data, bulk = [table.encoder(given)((None,)) or b""], bulk_decoder(given, types(given))
    assert bulk is None or not agree(bulk, given, data)
    assert bulk_encoder(given, types(given)) is None
