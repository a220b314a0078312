"""Tests that batches are decoded and encoded with the results of single records, whatever they contain."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats import table
from kestrel_sql.formats.bulk import json_read as bulk_json
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.spark.io.serdes import PART, WORTHWHILE, SerdeReader, SerdeWriter
from kestrel_sql.sql.parse.parser import parse_columns

FORMATS = {
    "JSON": "I INT, S STRING, D DOUBLE",
    "AVRO": "I INT, S STRING, D DOUBLE, A ARRAY<INT>",
    "PROTOBUF": "I INT, S STRING, D DOUBLE",
    "JSON_SR": "I INT, M MAP<STRING, DOUBLE>",
    "DELIMITED": "I INT, S STRING",
    "KAFKA": "S STRING",
    "NONE": "",
}


def spec(format: str, columns: str, *features: SerdeFeature) -> SerdeSpec:
    return SerdeSpec(
        FormatInfo(format), parse_columns(columns) if columns else (), frozenset(features), Side.VALUE, "topic"
    )


def row(format: str, at: int) -> tuple[Any, ...]:
    values: dict[str, tuple[Any, ...]] = {
        "AVRO": (at, f"s{at}", at / 4, [at, None]),
        "JSON_SR": (at, {"k": 0.5, "j": None}),
        "DELIMITED": (at, f"s{at}"),
        "KAFKA": (f"s{at}",),
        "NONE": (),
    }
    return values.get(format, (at, f"s{at}", at / 4))


def singly(given: SerdeSpec, data: list[bytes | None]) -> tuple[list[Any], dict[int, str]]:
    decode, found, errors = table.decoder(given), list[Any](), dict[int, str]()
    for at, each in enumerate(data):
        try:
            found.append(decode(each))
        except SerdeError as error:
            errors[at] = str(error)
            found.append(None)
    return found, errors


def check_read(given: SerdeSpec, data: list[bytes | None], reader: SerdeReader | None = None) -> None:
    side = (reader or SerdeReader(given)).read(pa.array(data, type=pa.binary()))
    rows, errors = singly(given, data)
    assert {at: str(error) for at, error in side.errors.items()} == errors
    assert side.present.tolist() == [each is not None for each in rows]
    assert [array.type for array in side.arrays] == [to_arrow(column.type) for column in given.columns]
    for at, array in enumerate(side.arrays):
        values = [dict(v) if pa.types.is_map(array.type) and v is not None else v for v in array.to_pylist()]
        assert values == [None if each is None else each[at] for each in rows]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("count", [0, 1, WORTHWHILE, 3 * PART + 7])
@pytest.mark.parametrize("kind", ["plain", "nulls", "bad", "bad and nulls"])
def test_reading(format: str, count: int, kind: str) -> None:
    made, given = random.Random(count), spec(format, FORMATS[format])
    data = [table.encoder(given)(row(format, at)) for at in range(count)]
    if "bad" in kind:
        data = [b"\xff\x01" if at % 701 == 5 else each for at, each in enumerate(data)]
    if "nulls" in kind:
        data = [None if made.random() < 0.1 else each for each in data]
    check_read(given, data)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("count", [0, 1, WORTHWHILE, 3 * PART + 7])
@pytest.mark.parametrize("kind", ["plain", "tombstones", "nulls"])
def test_writing(format: str, count: int, kind: str) -> None:
    made, given = random.Random(count), spec(format, FORMATS[format])
    rows = [row(format, at) for at in range(count)]
    if kind == "nulls":
        rows = [tuple(None if made.random() < 0.2 else value for value in each) for each in rows]
    present = np.array([kind != "tombstones" or made.random() > 0.2 for _ in rows], dtype=bool)
    arrays = [
        pa.array([list(r[at].items()) if isinstance(r[at], dict) else r[at] for r in rows], type=to_arrow(column.type))
        for at, column in enumerate(given.columns)
    ]
    data, errors = SerdeWriter(given).write(arrays, present)
    assert errors == {}
    encode = table.encoder(given)
    assert data.to_pylist() == [encode(each if there else None) for each, there in zip(rows, present, strict=True)]


def test_doubles_with_an_exponent_are_written_beside_others() -> None:
    given = spec("JSON", "D DOUBLE")
    rows = [(1e10 if at == 700 else at / 2,) for at in range(3 * PART)]
    data, _ = SerdeWriter(given).write([pa.array([r[0] for r in rows])], np.ones(len(rows), dtype=bool))
    assert data.to_pylist() == [table.encoder(given)(each) for each in rows]


def test_a_row_that_cannot_be_encoded_is_an_error_at_its_index() -> None:
    given = spec("PROTOBUF", "DA DATE")
    array = pa.array([0, 2**31 - 1], type=pa.int32())
    data, errors = SerdeWriter(given).write([array], np.ones(2, dtype=bool))
    assert list(errors) == [1]
    assert data.null_count == 1


def test_a_bulk_codec_that_keeps_failing_is_rarely_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def refuse(data: pa.BinaryArray) -> list[pa.Array]:
        nonlocal asked
        asked += 1
        raise NotPlainError

    monkeypatch.setattr(
        bulk_json, "ObjectReader", lambda columns, types: type("R", (), {"decode": staticmethod(refuse)})
    )
    given = spec("JSON", "I INT")
    reader = SerdeReader(given)
    for _ in range(50):
        check_read(given, [b'{"I": 1}'] * WORTHWHILE, reader)
    assert asked < 25
