"""Damaged messages: nothing but an error of ours, little memory, and the same answer alone and in a batch."""

from __future__ import annotations

import json
import random
import tracemalloc
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kestrel_sql.errors import EngineError, SerdeError
from kestrel_sql.formats import table
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from kestrel_sql.spark.io.serdes import SideReader
from tests.engine.formats.samples import NESTED_ROW, ROWS, SCHEMAS, spec

FORMATS = [name for name in SCHEMAS if name != "NONE"]
FLAT_TOO = {f"{name} flat": name for name in ("AVRO", "JSON", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR")}
FLAT = "I INT, L BIGINT, D DOUBLE, S STRING, B BOOLEAN, TS TIMESTAMP"
BATCH = 100
MEMORY = 32 * 1024 * 1024
"""Bytes that a batch of messages may need at its peak; the messages themselves take a few kilobytes."""

HOSTILE = [
    b"\xff" * 9 + b"\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 12,
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"[" * 40,
    b"\x0b" * 40,
    b"1e99999",
    b"\xed\xa0\x80",
]


def given(name: str) -> tuple[SerdeSpec, tuple[Any, ...]]:
    if name in FLAT_TOO:
        return spec(FLAT_TOO[name], FLAT), (-7, 2**40, 1.5, "naïve", True, 1_700_000_000_123)
    row = ROWS.get(name, NESTED_ROW)
    return spec(name, SCHEMAS[name]), row


def mutate(made: random.Random, data: bytes) -> bytes:
    """Damage a message once or a few times."""
    out = bytearray(data)
    for _ in range(made.choice((1, 1, 1, 2, 5))):
        at = made.randrange(len(out) + 1)
        match made.randrange(7):
            case 0:
                del out[at:]
            case 1 | 2 if out:
                out[min(at, len(out) - 1)] ^= 1 << made.randrange(8)
            case 3:
                out[at:at] = made.choice(HOSTILE)
            case 4:
                out[at : at + made.randint(1, 9)] = made.randbytes(made.randint(0, 9))
            case 5:
                out[at:at] = out[made.randrange(len(out) + 1) :]
            case _:
                out[: min(5, len(out))] = made.randbytes(5)
    return bytes(out)


def check(name: str, count: int, seed: int) -> int:
    """Decode damaged messages; gives how many of them could be read."""
    made = random.Random(seed)
    wanted, row = given(name)
    data, decode, reader = table.encoder(wanted)(row) or b"", table.decoder(wanted), SideReader(wanted)
    readable = 0
    for _ in range(count // BATCH):
        batch = [data if made.random() < 0.02 else mutate(made, data) for _ in range(BATCH)]
        errors: dict[int, str] = {}
        for at, each in enumerate(batch):
            try:
                decode(each)
            except SerdeError as error:
                errors[at] = str(error)
        side = reader.read(pa.array(batch, type=pa.binary()))
        assert {at: str(error) for at, error in side.errors.items()} == errors
        readable += BATCH - len(errors)
    return readable


@pytest.mark.parametrize("name", [*FORMATS, *FLAT_TOO])
def test_damaged_messages(name: str) -> None:
    check(name, BATCH, seed=0)
    tracemalloc.start()
    try:
        readable = check(name, 2_000, seed=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY
    assert readable > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*FORMATS, *FLAT_TOO])
def test_many_damaged_messages(name: str) -> None:
    check(name, BATCH, seed=0)
    tracemalloc.start()
    try:
        check(name, 100_000, seed=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY


def test_a_batch_with_a_number_too_long_to_keep_is_no_trouble() -> None:
    wanted = spec("JSON", "N DECIMAL(38, 2), S STRING, L BIGINT")
    decode = table.decoder(wanted)
    for text in (
        b'{"N":1e999999999}',
        b'{"S":1e999999999}',
        b'{"L":1e999999999}',
        b'{"L":' + b"9" * 5000 + b"}",
        b'{"N":"1e-999999999"}',
    ):
        try:
            row = decode(text)
        except SerdeError:
            continue
        assert row is not None
        assert all(not isinstance(value, Decimal) or value.adjusted() < 38 for value in row)


def _avro_laughs(depth: int, width: int) -> str:
    kind: Any = "int"
    for level in range(depth):
        first = {"type": "record", "name": f"R{level}", "fields": [{"name": "F0", "type": kind}]}
        more = [{"name": f"F{at}", "type": f"R{level - 1}" if level else "int"} for at in range(1, width)]
        kind = {**first, "fields": [*first["fields"], *more]}  # type: ignore[misc]
    return json.dumps(kind)


def _proto_laughs(depth: int, width: int) -> str:
    messages = [
        f"message R{level} {{ {' '.join(f'R{level + 1} F{at} = {at + 1};' for at in range(width))} }}"
        for level in range(depth)
    ]
    return f'syntax = "proto3"; {" ".join(messages)} message R{depth} {{ int32 A = 1; }}'


def _json_laughs(depth: int, width: int) -> str:
    defs: dict[str, Any] = {f"R{depth}": {"type": "integer"}}
    for level in range(depth):
        defs[f"R{level}"] = {
            "type": "object",
            "properties": {f"F{at}": {"$ref": f"#/d/R{level + 1}"} for at in range(width)},
        }
    return json.dumps({"d": defs, "$ref": "#/d/R0"})


HOSTILE_SCHEMAS = {
    "AVRO recursive": ("AVRO", '{"type":"record","name":"R","fields":[{"name":"A","type":["null","R"]}]}'),
    "AVRO recursive array": (
        "AVRO",
        '{"type":"record","name":"R","fields":[{"name":"A","type":{"type":"array","items":"R"}}]}',
    ),
    "AVRO items without bytes": (
        "AVRO",
        '{"type":"record","name":"R","fields":[{"name":"A","type":{"type":"array","items":"null"}}]}',
    ),
    "AVRO empty records": ("AVRO", '{"type":"array","items":{"type":"record","name":"E","fields":[]}}'),
    "AVRO fixed of none": ("AVRO", '{"type":"array","items":{"type":"fixed","name":"X","size":0}}'),
    "AVRO deep": ("AVRO", '{"type":"array","items":' * 500 + '"int"' + "}" * 500),
    "AVRO many parts": ("AVRO", _avro_laughs(30, 10)),
    "AVRO no schema": ("AVRO", "{"),
    "PROTOBUF recursive": ("PROTOBUF", 'syntax = "proto3"; message R { R A = 1; R B = 2; }'),
    "PROTOBUF mutually": (
        "PROTOBUF",
        'syntax = "proto3"; message R { S A = 1; S B = 2; } message S { repeated R A = 1; }',
    ),
    "PROTOBUF many parts": ("PROTOBUF", _proto_laughs(30, 10)),
    "PROTOBUF no schema": ("PROTOBUF", "message"),
    "JSON_SR recursive": ("JSON_SR", '{"type":"object","properties":{"A":{"$ref":"#"},"B":{"$ref":"#"}}}'),
    "JSON_SR reference to itself": ("JSON_SR", '{"$ref":"#"}'),
    "JSON_SR many parts": ("JSON_SR", _json_laughs(30, 10)),
    "JSON_SR no schema": ("JSON_SR", "[1"),
}


@pytest.mark.parametrize("name", HOSTILE_SCHEMAS)
def test_a_schema_that_could_take_the_process_down_is_refused_for_every_record(name: str) -> None:
    format, text = HOSTILE_SCHEMAS[name]
    registry = MemoryRegistry()
    given = registry.register("topic-value", LANGUAGES[format].format, text)
    decode = table.decoder(spec(format, "A STRING", schemas=registry.snapshot()))
    for body in (b"", b"\x02\x02", b"\x00" + HOSTILE[0], b"{}"):
        with pytest.raises(SerdeError):
            decode(b"\x00" + given.to_bytes(4, "big") + body)


@pytest.mark.parametrize("name", [name for name in HOSTILE_SCHEMAS if not name.endswith("no bytes")])
def test_it_is_refused_by_a_statement(name: str) -> None:
    format, text = HOSTILE_SCHEMAS[name]
    session = Session(config=Config.of({}))
    session.registry.register("t-value", LANGUAGES[format].format, text)
    with pytest.raises(EngineError):
        session.execute(session.parse(f"CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{format}');")[0])
    assert session.catalog.sources == {}
