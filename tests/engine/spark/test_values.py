from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from kestrel_sql.arrow.columns import to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.arrow.values import row_converter, to_arrow_value
from kestrel_sql.spark.types import struct_of, to_spark
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Field, Map, Struct

NESTED = Struct((Field("M", Map(t.STRING, Array(t.INTEGER))), Field("D", t.Decimal(5, 2))))


def test_the_spark_type_of_every_sql_type() -> None:
    assert to_spark(NESTED) == "STRUCT<`M`:MAP<STRING,ARRAY<INT>>,`D`:DECIMAL(5,2)>"
    assert [to_spark(x) for x in (t.TIME, t.DATE, t.TIMESTAMP, t.BYTES, None)] == [
        "INT",
        "INT",
        "BIGINT",
        "BINARY",
        "STRING",
    ]
    assert struct_of([Column("a`b", t.DOUBLE)]) == "STRUCT<`a``b`:DOUBLE>"


def test_what_spark_cannot_hold_is_carried() -> None:
    assert to_spark(t.Decimal(39, 0)) == "STRUCT<`_`:TINYINT,`digits`:STRING>"
    assert to_spark(Array(Struct(()))) == "ARRAY<STRUCT<`_`:TINYINT>>"


@pytest.mark.rules("L4.4.8", "L4.7.9")
@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        (Struct(()), {}),
        (Struct((Field("_", t.BOOLEAN), Field("E", Struct(())))), {"_": None, "E": {}}),
        (Array(t.Decimal(39, 2)), [Decimal("-1234567890123456789012345678901234567.80"), None]),
        (Map(t.Decimal(50, 1), Struct(())), {Decimal("0.0"): {}, Decimal("1.5"): None}),
    ],
)
def test_carried_values_round_trip(sql_type: t.SqlType, value: object) -> None:
    to = to_arrow_value(sql_type)
    assert to is not None
    assert to_list(pa.array([to(value), None], to_arrow(sql_type))) == [value, None]


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        (NESTED, {"M": {"x": [1, None], "y": None}, "D": Decimal("1.50")}),
        (Map(t.STRING, NESTED), {"k": {"M": {}, "D": None}, "n": None}),
        (Array(Map(t.STRING, t.BYTES)), [{"a": b"\x00"}, None]),
        (NESTED, None),
    ],
)
def test_a_value_comes_back_from_arrow_as_it_went_in(sql_type: t.SqlType, value: object) -> None:
    encode = to_arrow_value(sql_type)
    assert encode is not None
    assert to_list(pa.array([encode(value)], type=to_arrow(sql_type))) == [value]


def test_plain_types_need_no_conversion() -> None:
    assert to_arrow_value(Array(t.STRING)) is None


def test_rows_are_tuples_in_column_order() -> None:
    columns = [Column("A", t.INTEGER), Column("M", Map(t.STRING, t.INTEGER))]
    assert row_converter(columns)((1, {"x": 2})) == (1, [("x", 2)])
    assert row_converter(columns)(None) is None
