from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_sql.dataflow.typed_values import typed_rows
from kestrel_sql.sql.parse.parser import parse_columns
from kestrel_sql.types.own_scales import with_own_scales

NUMBERS = {"N": 0, "M": None}


@pytest.mark.parametrize(
    ("sql_type", "given", "typed"),
    [
        ("DOUBLE", 0, "0.0"),
        ("DOUBLE", None, "None"),
        ("DECIMAL(6, 2)", Decimal(0), "Decimal('0.00')"),
        ("DECIMAL(6, 2)", Decimal("1.250"), "Decimal('1.25')"),
        ("DECIMAL(4, 2)", Decimal(1234), "None"),
        ("ARRAY<DOUBLE>", [1, None], "[1.0, None]"),
        ("MAP<STRING, DOUBLE>", {None: 1, "a": None}, "{'null': 1.0, 'a': None}"),
        ("MAP<INT, INT>", {None: 1, 2: 3}, "{2: 3}"),
        ("STRUCT<N DOUBLE, M INT, L INT>", NUMBERS, "{'N': 0.0, 'M': None, 'L': None}"),
        ("STRING", "a", "'a'"),
    ],
)
def test_values_have_the_types_of_their_columns(sql_type: str, given: Any, typed: str) -> None:
    columns = parse_columns(f"A INT, V {sql_type}")
    [(_, value)] = typed_rows([(1, given)], columns)
    assert repr(value) == typed


def test_a_decimal_with_a_scale_of_its_own_keeps_it() -> None:
    [column] = parse_columns("V DECIMAL(6, 2)")
    own = replace(column, type=with_own_scales(column.type, own=True))
    assert str(typed_rows([[Decimal("1.2")]], [own])[0][0]) == "1.2"
