"""The names of groups are the same bytes whether their keys are serialised as a column or one by one."""

from __future__ import annotations

import pytest

from kestrel_sql.arrow.columns import from_rows
from kestrel_sql.dataflow.keys import EncodedKey
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.spark.state.key_names import _MANY, KeyNames
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, STRING, SqlType


@pytest.mark.parametrize("format_name", ["KAFKA", "JSON", "DELIMITED"])
@pytest.mark.parametrize("kind", [BIGINT, STRING], ids=str)
@pytest.mark.parametrize("count", [_MANY - 1, 2 * _MANY])
def test_names_are_those_of_the_operator(format_name: str, kind: SqlType, count: int) -> None:
    columns = (Column("K", kind),)
    keys = [(number if kind is BIGINT else f"k, {number}",) for number in range(count)]
    encoded = EncodedKey(SerdeSpec(FormatInfo(format_name), columns, frozenset(), Side.KEY, "t"))
    assert KeyNames(encoded).of(from_rows(keys, columns)) == [encoded(key) for key in keys]


def test_a_key_that_its_format_cannot_write_has_the_name_that_the_operator_gives_it() -> None:
    columns = (Column("K", STRING),)
    keys = [(None if number == 7 else f"k{number}",) for number in range(2 * _MANY)]
    encoded = EncodedKey(SerdeSpec(FormatInfo("DELIMITED"), columns, frozenset(), Side.KEY, "t"))
    assert KeyNames(encoded).of(from_rows(keys, columns)) == [encoded(key) for key in keys]
