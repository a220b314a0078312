"""Compares the bulk codec of a format with its record codec over random schemas and valid, odd and mutated messages.

The record codec says what a message means. Whatever the bulk codec accepts, it reads and writes as that one does; and
each value that the record codec reads has the type of its column, so that Arrow takes it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from kestrel_sql.arrow.columns import to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.arrow.values import to_arrow_value
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats import table
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.registered.columns import generated_schema
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, Decoder, Encoder, SerdeSpec
from kestrel_sql.formats.table import bulk_decoder, bulk_encoder
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Decimal, Field, Map, SqlType, Struct
from tests.engine.formats.test_mutations import mutate
from tests.fuzz.values import value

_FLAT: tuple[SqlType, ...] = (t.BOOLEAN, t.INTEGER, t.BIGINT, t.DOUBLE, t.STRING, t.BYTES, t.TIME, t.DATE, t.TIMESTAMP)
_NESTED: tuple[SqlType, ...] = (
    *(Decimal(5, 2), Decimal(38, 10), Array(t.STRING), Array(t.INTEGER), Array(t.DOUBLE), Map(t.STRING, t.BIGINT)),
    *(Struct((Field("x", t.INTEGER), Field("X", t.STRING))), Array(Struct((Field("P", t.TIMESTAMP),)))),
)
REGISTERED = ("AVRO", "JSON_SR", "PROTOBUF")
FORMATS = ("JSON", "PROTOBUF_NOSR", "DELIMITED", "KAFKA", *REGISTERED)
NAMES = ("ID", "Mixed", "NAME", "name2", "a", "B", "V", "_x", "Two Words", "ß")
ALIKE = ("ID", "id", "Id", "Mixed", "MIXED", "A", "a", "B")
"""Names that differ in case only."""

PER_SCHEMA = 200
"""Messages of one schema: to make its codecs takes as long as to read a few dozen of them."""

_ODD = [
    *(
        "1",
        "-0",
        "-0.0",
        "0.0",
        "1.0",
        "1e0",
        "1E400",
        "-1e-400",
        "NaN",
        "Infinity",
        "-Infinity",
        "2147483648",
        "1.5",
        '"1"',
        '"1.5"',
    ),
    *(
        '"x"',
        '""',
        "true",
        "null",
        "[]",
        "{}",
        "[1]",
        '[null,"a"]',
        '{"x":1}',
        '{"x":1,"X":"y"}',
        '{"a":1,"a":2}',
        '"\\ud83d"',
        '"\\u0000"',
    ),
    *(
        "9223372036854775808",
        "1" * 1001,
        "0." + "1" * 1001,
        "[" * 70 + "]" * 70,
        '"2020-01-01"',
        "86400000",
        "-1",
        "01",
        "+1",
        ".5",
        "1.",
    ),
]
"""Values of members as JSON, also those that it does not allow."""


def some_spec(rng: random.Random, format: str) -> SerdeSpec:
    """Return a spec of random columns, registered where the format needs it."""
    types = (*_FLAT, *_NESTED) if rng.random() < 0.3 and format not in ("DELIMITED", "KAFKA") else _FLAT
    if format == "KAFKA":
        types = (t.INTEGER, t.BIGINT, t.DOUBLE, t.STRING)
    pool = ALIKE if rng.random() < 0.2 else NAMES if format in ("JSON", "DELIMITED", "KAFKA") else NAMES[:-2]
    names = rng.sample(pool, 1 if format == "KAFKA" else rng.choice((1, 1, 2, 3, 4, 6)))
    columns = tuple(Column(name, rng.choice(types)) for name in names)
    bare = len(columns) == 1 and format in ("JSON", "JSON_SR", "AVRO") and rng.random() < 0.3
    features = frozenset({SerdeFeature.UNWRAP_SINGLES}) if bare else frozenset()
    return registered(SerdeSpec(FormatInfo(format, ()), columns, features, topic="topic"))


def registered(spec: SerdeSpec, *others: SerdeSpec) -> SerdeSpec:
    """Return the spec with a registry that has its schema, after those of other writers."""
    if spec.format.format not in REGISTERED:
        return spec
    registry = MemoryRegistry()
    for each in (*others, spec):
        schema = generated_schema(each)
        registry.register("topic-value", schema.format, schema.text)
    return replace(spec, schemas=registry.snapshot())


def messages(rng: random.Random, spec: SerdeSpec, encode: Encoder, count: int) -> list[bytes]:
    """Return messages of rows, half of them mutated, and odd objects where the format is JSON."""
    found: list[bytes] = []
    while len(found) < count:
        row = tuple(value(rng, column.type) for column in spec.columns)
        try:
            data = encode(row) or b""
        except SerdeError:
            data = b""
        if spec.format.format in ("JSON", "JSON_SR") and rng.random() < 0.3:
            data = data[: 5 if spec.format.format == "JSON_SR" else 0] + _odd_object(rng, spec)
        found.append(mutate(rng, data) if rng.random() < 0.25 else data)
    return found


def _odd_object(rng: random.Random, spec: SerdeSpec) -> bytes:
    if spec.unwrapped:
        return rng.choice(_ODD).encode()
    names = [column.name for column in spec.columns] + ["other"]
    spelled = [rng.choice((name, name, name.lower(), name.upper(), name.title())) for name in names]
    members = [f"{json.dumps(name)}:{rng.choice(_ODD)}" for name in spelled if rng.random() < 0.7]
    return ("{" + ",".join(members) + "}").encode()


def _rows(arrays: Sequence[pa.Array]) -> list[str]:
    return [repr(row) for row in zip(*map(to_list, arrays), strict=True)]


def _one(decode: Decoder, data: bytes) -> tuple[Any, ...] | str:
    try:
        return decode(data) or "null"
    except SerdeError:
        return "error"


def decoded(spec: SerdeSpec, decode: Decoder, bulk: BulkDecoder | None, data: Sequence[bytes]) -> str | None:
    """Compare the two decoders over a batch; return what differs, or None."""
    singly = [_one(decode, each) for each in data]
    for each, row in zip(data, singly, strict=True):
        if isinstance(row, tuple) and (reason := _misfit(spec, row)) is not None:
            return f"{shown(spec)} reads {each!r} singly as {row!r}: {reason}"
    if bulk is None:
        return None
    try:
        read = bulk(pa.array(data, type=pa.binary()))
    except (NotPlainError, pa.ArrowException):
        return None
    expected = [row if isinstance(row, str) else repr(row) for row in singly]
    found = _rows(read)
    return None if found == expected else f"{shown(spec)} reads {list(data)!r} in bulk as {found}, singly as {expected}"


def _misfit(spec: SerdeSpec, row: Sequence[Any]) -> str | None:
    """Say why the row is not equal after its way through Arrow, if it is not."""
    for column, given in zip(spec.columns, row, strict=True):
        convert = to_arrow_value(column.type)
        try:
            (read,) = to_list(pa.array([given if convert is None else convert(given)], to_arrow(column.type)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            return f"{type(error).__name__}: {error}"
        if repr(read) != repr(given):
            return f"{column} is {read!r} after Arrow"
    return None


def encoded(spec: SerdeSpec, encode: Encoder, bulk: BulkEncoder, rows: Sequence[tuple[Any, ...]]) -> str | None:
    """Compare the two encoders over a batch; return what differs, or None."""
    converts = [to_arrow_value(column.type) or (lambda given: given) for column in spec.columns]
    given = zip(zip(*rows, strict=True), converts, spec.columns, strict=True)
    arrays = [pa.array([convert(each) for each in values], to_arrow(column.type)) for values, convert, column in given]
    try:
        found = bulk(arrays).to_pylist()
    except (NotPlainError, pa.ArrowException):
        return None
    expected: list[Any] = []
    for row in rows:
        try:
            expected.append(encode(row))
        except SerdeError:
            expected.append("error")
    return None if found == expected else f"{shown(spec)} writes {rows!r} in bulk as {found}, singly as {expected}"


def shown(spec: SerdeSpec) -> str:
    """Return format and columns of a spec."""
    return f"{spec.format.format} ({', '.join(map(str, spec.columns))})"


def _smallest(check: Callable[[Sequence[Any]], str | None], batch: Sequence[Any]) -> str | None:
    """Return the difference of the smallest part of a batch that differs."""
    for size in range(1, len(batch)):
        for start in range(len(batch) - size + 1):
            if (difference := check(batch[start : start + size])) is not None:
                return difference
    return check(batch)


def differences(format: str, seed: int, count: int) -> list[str]:
    """Compare the codecs of a format over `count` messages, and as many rows to write; return what differs."""
    rng, found, tried = random.Random(f"{format} {seed}"), [], 0
    while tried < count:
        spec = some_spec(rng, format)
        writer = registered(some_spec(rng, format), spec) if rng.random() < 0.3 else spec
        reader = replace(spec, schemas=writer.schemas)
        types = [to_arrow(column.type) for column in spec.columns]
        decode, many, encode = table.decoder(reader), bulk_decoder(reader, types), table.encoder(spec)
        write, left = bulk_encoder(spec, types), PER_SCHEMA
        data = messages(rng, writer, table.encoder(writer), PER_SCHEMA)
        while left > 0:
            batch = data[PER_SCHEMA - left :][: rng.choice((1, 1, 1, 2, 5))]
            left, tried = left - len(batch), tried + len(batch)
            if decoded(reader, decode, many, batch) is not None:
                # The bulk decoder of JSON remembers names: a new one shows what the batch alone does.
                again = _smallest(lambda part: decoded(reader, decode, bulk_decoder(reader, types), part), batch)  # noqa: B023
                found.append(again or f"after other batches: {decoded(reader, decode, many, batch)}")
            rows = [tuple(value(rng, column.type, 0.1) for column in spec.columns) for _ in batch]
            if write is not None and encoded(spec, encode, write, rows) is not None:
                found.append(_smallest(lambda part: encoded(spec, encode, write, part), rows) or "")  # noqa: B023
    return found
