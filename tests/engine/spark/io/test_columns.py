from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kestrel_sql.arrow import columns
from kestrel_sql.arrow.columns import array_of, from_rows, to_list, to_rows
from kestrel_sql.spark.io.columns import rows_at, values_at
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column

PLAIN: list[tuple[t.SqlType, list[Any]]] = [
    (t.BOOLEAN, [True, None, False]),
    (t.INTEGER, [1, None, -(2**31)]),
    (t.BIGINT, [2**63 - 1, None, 0]),
    (t.DOUBLE, [1.5, None, float("-inf")]),
    (t.STRING, ["", None, "ä\x00"]),
    (t.BYTES, [b"", None, b"\xff"]),
    (t.Decimal(38, 2), [Decimal("1.50"), None, Decimal("-0.01")]),
    (t.TIME, [0, None, 86_399_999]),
    (t.Array(t.INTEGER), [[], None, [1, None, 3]]),
    (t.Array(t.Array(t.STRING)), [[["a"], None, []], None, []]),
    (t.Map(t.STRING, t.BIGINT), [{}, None, {"a": 1, "b": None}]),
    (
        t.Struct((t.Field("A", t.INTEGER), t.Field("B", t.Map(t.STRING, t.DOUBLE)))),
        [{"A": 1, "B": {"x": 2.0}}, None, {"A": 2, "B": None}],
    ),
]


@pytest.mark.parametrize(("sql_type", "values"), PLAIN, ids=str)
def test_every_type_survives_a_round_trip(sql_type: t.SqlType, values: list[Any]) -> None:
    rows = [(value,) for value in values]
    array = from_rows(rows, [Column("C", sql_type)])
    assert to_rows(array) == rows
    assert to_list(array) == [{"C": value} for value in values]


@pytest.mark.parametrize(("sql_type", "values"), PLAIN, ids=str)
def test_a_slice_gives_its_own_values_only(sql_type: t.SqlType, values: list[Any]) -> None:
    rows = [(value,) for value in [*values, *values]]
    array = from_rows(rows, [Column("C", sql_type)])
    assert to_rows(array.slice(2, 3)) == rows[2:5]


@pytest.mark.parametrize(
    "sql_type", [t.Array(t.STRING), t.Map(t.STRING, t.STRING), t.Array(t.Array(t.STRING))], ids=str
)
def test_a_slice_does_not_convert_the_values_of_others(sql_type: t.SqlType, monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = {t.Array(t.STRING): ["a"] * 10, t.Map(t.STRING, t.STRING): {str(n): "a" for n in range(10)}}.get(
        sql_type, [["a"] * 10]
    )
    array = from_rows([(value,)] * 1000, [Column("C", sql_type)]).slice(500, 2)
    seen: list[int] = []
    original = columns.to_list

    def counted(given: pa.Array) -> list[Any]:
        seen.append(len(given))
        return original(given)

    monkeypatch.setattr(columns, "to_list", counted)
    assert to_rows(array) == [(value,)] * 2
    assert max(seen) == 20


def test_a_row_that_is_null_is_not_a_row_of_nulls() -> None:
    columns = [Column("A", t.INTEGER), Column("B", t.STRING)]
    rows = [None, (None, None), (1, "x")]
    assert to_rows(from_rows(rows, columns)) == rows
    assert to_rows(from_rows(rows, columns).slice(1)) == rows[1:]


def test_not_a_number_is_not_null() -> None:
    (value,), nothing = to_rows(from_rows([(float("nan"),), (None,)], [Column("A", t.DOUBLE)]))
    assert value != value
    assert nothing == (None,)


def test_rows_without_columns_and_no_rows_at_all() -> None:
    assert to_rows(from_rows([(), None], [])) == [(), None]
    assert to_rows(from_rows([], [Column("A", t.INTEGER)])) == []


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        from_rows([(Decimal("1000.00"),)], [Column("A", t.Decimal(4, 2))])


_LISTS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("indices", [[], [0, 1, 2, 3], [1, 2], [3, 0], [2, 2, 1], [1]])
@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([5, None, 6, 7, 8, 9]),
        pa.nulls(6, pa.string()),
        pa.array([[]] * 6, _LISTS),
        pa.array([[], None, [], [], [], []], _LISTS),
        pa.array([[], [{"key": "a", "value": b"1"}], [], [], [{"key": "b", "value": None}], []], _LISTS),
        pa.array([{"a": 1}, None, {"a": None}, {"a": 2}, {"a": 3}, {"a": 4}], pa.struct([("a", pa.int32())])),
    ],
)
def test_values_at_indices_are_those_that_arrow_takes(column: pa.Array, offset: int, indices: list[int]) -> None:
    given, at = column.slice(offset), np.array(indices, np.int64)
    expected = given.take(pa.array(at))
    found = values_at(given, at)
    assert (found.type, found.to_pylist()) == (expected.type, expected.to_pylist())
    found.validate(full=True)
    assert rows_at(pa.RecordBatch.from_arrays([given], ["c"]), at).column(0).equals(expected)


def test_consecutive_rows_are_not_copied() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2, 3, 4]})
    assert rows_at(rows, np.array([1, 2])).column(0).buffers()[1].address == rows.column(0).buffers()[1].address


@pytest.mark.rules("U4.9")
def test_half_of_a_character_survives_in_rows_and_dicts() -> None:
    row = pa.struct([("A", pa.string()), ("B", pa.list_(pa.string())), ("M", pa.map_(pa.string(), pa.int32()))])
    kind = pa.struct([("k", pa.string()), ("v", row)])
    values = [{"k": "\ud83d", "v": ("a\ude00", ["\ud83d", None, "😀"], [("\ude00", 1)])}, None, {"k": None, "v": None}]
    assert to_list(array_of(values, kind)) == [
        {"k": "\ud83d", "v": {"A": "a\ude00", "B": ["\ud83d", None, "😀"], "M": {"\ude00": 1}}},
        None,
        {"k": None, "v": None},
    ]
