from __future__ import annotations

import pytest

from engine.spark.hashing import hash_ints, hash_row
from engine.types.schema import Column
from engine.types.sql_types import BIGINT, BOOLEAN, INTEGER, STRING

COLUMNS = (Column("A", INTEGER), Column("B", BIGINT), Column("C", STRING), Column("D", BOOLEAN))
ROWS = [(1, 2, "", True), (-7, -(1 << 40), "naïve käse", False), (None, 5, "abc", None), (0, 0, "abcd", False)]


@pytest.mark.spark
def test_hashes_are_those_of_spark() -> None:
    from engine.spark.session import open_test_session

    spark = open_test_session()
    frame = spark.createDataFrame(ROWS, "A INT, B BIGINT, C STRING, D BOOLEAN")
    assert [row[0] for row in frame.selectExpr("hash(A, B, C, D)").collect()] == [hash_row(row, COLUMNS) for row in ROWS]
    assert spark.sql("SELECT hash(3, -4)").collect()[0][0] == hash_ints(3, -4)
    assert spark.sql("SELECT hash(named_struct('a', 3, 'b', 'x'))").collect()[0][0] == hash_row((3, "x"), (COLUMNS[0], COLUMNS[2]))
