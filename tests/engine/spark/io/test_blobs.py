from __future__ import annotations

import pyarrow as pa
import pytest

from kestrel_sql.spark.io.blobs import read_rows, write_rows

SCHEMA = pa.schema([("topic", pa.string()), ("k", pa.struct([("ID", pa.string())])), ("ts", pa.int64())])


def rows(count: int) -> pa.RecordBatch:
    given = [{"topic": "orders", "k": None if at % 7 == 0 else {"ID": f"k{at}"}, "ts": at} for at in range(count)]
    return pa.RecordBatch.from_pylist(given, schema=SCHEMA)


@pytest.mark.parametrize("count", [0, 1, 100, 10_000])
def test_rows_are_read_as_they_were_written(count: int) -> None:
    assert read_rows(write_rows(rows(count)), SCHEMA).equals(rows(count))


def test_a_part_of_many_rows_is_written_alone() -> None:
    part = rows(10_000).slice(5_000, 3)
    blob = write_rows(part)
    assert (len(blob) < 2_000, read_rows(blob, SCHEMA).equals(part)) == (True, True)


def test_few_rows_of_many_queries_are_not_compressed() -> None:
    wide = pa.RecordBatch.from_pydict({f"r{at}": ["a value"] * 10 for at in range(1_000)})
    assert pa.ipc.read_message(write_rows(wide)).type == "record batch"


def test_many_rows_are_compressed() -> None:
    assert len(write_rows(rows(10_000))) < rows(10_000).nbytes * 2 / 3
