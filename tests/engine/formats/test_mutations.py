"""Mutated messages raise only our errors, need little memory, and give equal results alone and in a batch."""

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
from kestrel_sql.spark.io.serdes import SerdeReader
from tests.engine.formats.samples import ROWS, SCHEMAS, spec

FORMATS = [name for name in SCHEMAS if name != "NONE"]
FLAT_TOO = {f"{name} flat": name for name in ("AVRO", "JSON", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR")}
FLAT = "I INT, L BIGINT, D DOUBLE, S STRING, B BOOLEAN, TS TIMESTAMP"
BATCH = 100
MEMORY = 32 * 1024 * 1024
"""The limit of memory in bytes for a batch of messages, which take a few kilobytes themselves."""

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


def spec_and_row(name: str) -> tuple[SerdeSpec, tuple[Any, ...]]:
    if name in FLAT_TOO:
        return spec(FLAT_TOO[name], FLAT), (-7, 2**40, 1.5, "naïve", True, 1_700_000_000_123)
    row = ROWS[name]
    return spec(name, SCHEMAS[name]), row


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Mutate a message at one or several positions."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(7):
            case 0:
                del out[at:]
            case 1 | 2 if out:
                out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
            case 3:
                out[at:at] = rng.choice(HOSTILE)
            case 4:
                out[at : at + rng.randint(1, 9)] = rng.randbytes(rng.randint(0, 9))
            case 5:
                out[at:at] = out[rng.randrange(len(out) + 1) :]
            case _:
                out[: min(5, len(out))] = rng.randbytes(5)
    return bytes(out)


def check(name: str, count: int, seed: int) -> int:
    """Decode mutated messages and return the number that could be read."""
    rng = random.Random(seed)
    wanted, row = spec_and_row(name)
    data, decode, reader = table.encoder(wanted)(row) or b"", table.decoder(wanted), SerdeReader(wanted)
    readable = 0
    for _ in range(count // BATCH):
        batch = [data if rng.random() < 0.02 else mutate(rng, data) for _ in range(BATCH)]
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
def test_mutated_messages(name: str) -> None:
    check(name, BATCH, seed=0)
    tracemalloc.start()
    try:
        readable = check(name, 1_000, seed=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY
    assert readable > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*FORMATS, *FLAT_TOO])
def test_many_mutated_messages(name: str) -> None:
    check(name, BATCH, seed=0)
    tracemalloc.start()
    try:
        check(name, 100_000, seed=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY


def test_a_very_long_number_in_a_batch_needs_little_memory() -> None:
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


def _avro_billion_laughs(depth: int, width: int) -> str:
    kind: Any = "int"
    for level in range(depth):
        first = {"type": "record", "name": f"R{level}", "fields": [{"name": "F0", "type": kind}]}
        more = [{"name": f"F{at}", "type": f"R{level - 1}" if level else "int"} for at in range(1, width)]
        kind = {**first, "fields": [*first["fields"], *more]}  # type: ignore[misc]
    return json.dumps(kind)


def _proto_billion_laughs(depth: int, width: int) -> str:
    messages = [
        f"message R{level} {{ {' '.join(f'R{level + 1} F{at} = {at + 1};' for at in range(width))} }}"
        for level in range(depth)
    ]
    return f'syntax = "proto3"; {" ".join(messages)} message R{depth} {{ int32 A = 1; }}'


def _json_billion_laughs(depth: int, width: int) -> str:
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
    "AVRO many parts": ("AVRO", _avro_billion_laughs(30, 10)),
    "AVRO no schema": ("AVRO", "{"),
    "PROTOBUF recursive": ("PROTOBUF", 'syntax = "proto3"; message R { R A = 1; R B = 2; }'),
    "PROTOBUF mutually": (
        "PROTOBUF",
        'syntax = "proto3"; message R { S A = 1; S B = 2; } message S { repeated R A = 1; }',
    ),
    "PROTOBUF many parts": ("PROTOBUF", _proto_billion_laughs(30, 10)),
    "PROTOBUF no schema": ("PROTOBUF", "message"),
    "JSON_SR recursive": ("JSON_SR", '{"type":"object","properties":{"A":{"$ref":"#"},"B":{"$ref":"#"}}}'),
    "JSON_SR reference to itself": ("JSON_SR", '{"$ref":"#"}'),
    "JSON_SR many parts": ("JSON_SR", _json_billion_laughs(30, 10)),
    "JSON_SR no schema": ("JSON_SR", "[1"),
}


@pytest.mark.parametrize("name", HOSTILE_SCHEMAS)
def test_a_dangerous_schema_is_an_error_of_each_record(name: str) -> None:
    format, text = HOSTILE_SCHEMAS[name]
    registry = MemoryRegistry()
    spec_and_row = registry.register("topic-value", LANGUAGES[format].format, text)
    decode = table.decoder(spec(format, "A STRING", schemas=registry.snapshot()))
    for body in (b"", b"\x02\x02", b"\x00" + HOSTILE[0], b"{}"):
        with pytest.raises(SerdeError):
            decode(b"\x00" + spec_and_row.to_bytes(4, "big") + body)


@pytest.mark.parametrize("name", [name for name in HOSTILE_SCHEMAS if not name.endswith("no bytes")])
def test_a_dangerous_schema_fails_a_statement(name: str) -> None:
    format, text = HOSTILE_SCHEMAS[name]
    session = Session(config=Config.of({}))
    session.registry.register("t-value", LANGUAGES[format].format, text)
    with pytest.raises(EngineError):
        session.execute(session.parse(f"CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{format}');")[0])
    assert session.catalog.sources == {}
