from __future__ import annotations

import decimal
import math
import random

import pyarrow as pa
import pytest

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.spark.state.hashing import hash_row, hash_rows
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, BYTES, DOUBLE, INTEGER, STRING, Array, Decimal, Field, Struct

COLUMNS = (Column("A", INTEGER), Column("B", BIGINT), Column("C", STRING), Column("D", BOOLEAN))
ROWS = [(1, 2, "", True), (-7, -(1 << 40), "naïve käse", False), (None, 5, "abc", None), (0, 0, "abcd", False)]


@pytest.mark.spark
def test_hashes_are_those_of_spark() -> None:
    from kestrel_sql.spark.runtime.session import open_test_session

    spark = open_test_session()
    frame = spark.createDataFrame(ROWS, "A INT, B BIGINT, C STRING, D BOOLEAN")
    assert [row[0] for row in frame.selectExpr("hash(A, B, C, D)").collect()] == [
        hash_row(row, COLUMNS) for row in ROWS
    ]
    assert spark.sql("SELECT hash(named_struct('a', 3, 'b', 'x'))").collect()[0][0] == hash_row(
        (3, "x"), (COLUMNS[0], COLUMNS[2])
    )


@pytest.mark.spark
def test_hashes_of_columns_are_those_of_spark() -> None:
    from kestrel_sql.spark.runtime.session import open_test_session

    random_ = random.Random(5)
    texts = ["".join(random_.choices("aé€😀\x00z", k=random_.randrange(12))) for _ in range(300)]
    rows = [
        (random_.choice([None, 7, -(1 << 31)]), random_.getrandbits(64) - (1 << 63), text or None, text > "b")
        for text in texts
    ]
    frame = open_test_session().createDataFrame(rows, "A INT, B BIGINT, C STRING, D BOOLEAN")
    kinds = (pa.int32(), pa.int64(), pa.string(), pa.bool_())
    # A slice knows the values before it.
    arrays = [pa.array(values, kind)[100:] for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    assert [row[0] for row in frame.selectExpr("hash(A, B, C, D)").collect()][100:] == hash_rows(
        arrays, COLUMNS
    ).tolist()


@pytest.mark.spark
def test_hashes_of_every_type_are_those_of_spark() -> None:
    from kestrel_sql.spark.runtime.session import open_test_session

    small, large, plain = Decimal(9, 2), Decimal(30, 4), [-0.0, 0.0, math.nan, math.inf, 1.5, None]
    columns = (
        Column("A", DOUBLE),
        Column("B", BYTES),
        Column("C", small),
        Column("D", large),
        Column("E", Array(STRING)),
        Column("F", Struct((Field("X", INTEGER), Field("Y", Array(DOUBLE))))),
    )
    rows = [
        (
            number,
            b"" if at == 0 else bytes(range(at)),
            decimal.Decimal("-123.45") + at,
            decimal.Decimal("-12345678901234567890.1234") * (at - 2),
            ["a", None, "b" * at],
            None if at == 4 else {"X": at, "Y": plain[:at]},
        )
        for at, number in enumerate(plain)
    ]
    arrays = [
        pa.array(values, to_arrow(column.type)) for values, column in zip(zip(*rows, strict=True), columns, strict=True)
    ]
    frame = open_test_session().createDataFrame(pa.Table.from_arrays(arrays, names=[each.name for each in columns]))
    assert [row[0] for row in frame.selectExpr("hash(A, B, C, D, E, F)").collect()] == hash_rows(
        arrays, columns
    ).tolist()
