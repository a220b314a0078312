"""Tests how casts are written: as calls or in the short form, which a field of a struct must not cling to."""

from __future__ import annotations

import pytest
from sqlglot import exp

from kestrel_sql.spark.compile import sql as s
from kestrel_sql.types import sql_types as t


@pytest.mark.parametrize(
    ("sql_type", "text"),
    [
        (t.BIGINT, "`BIGINT`(`X`)"),
        (t.STRING, "`STRING`(`X`)"),
        (t.Decimal(4, 2), "`X` :: DECIMAL(4, 2)"),
        (t.Array(t.INTEGER), "`X` :: ARRAY<INT>"),
    ],
)
def test_a_type_without_parameters_is_a_call(sql_type: t.SqlType, text: str) -> None:
    assert s.to_text(s.cast(s.column("X"), sql_type)) == text


def test_a_field_is_one_of_the_whole_cast_wherever_else_the_cast_stands() -> None:
    struct = s.cast(s.column("X"), t.Struct((t.Field("A", t.INTEGER),)))
    field = exp.Dot(this=struct, expression=exp.to_identifier("A", quoted=True))
    tree = s.if_(s.is_null(struct), s.NULL, field)
    cast = "`X` :: STRUCT<`A`: INT>"
    assert s.to_text(tree) == f"`if`(`isnull`({cast}), NULL, ({cast}).`A`)"
