"""The column-wise and the row-wise body of a function agree to the last digit."""

from __future__ import annotations

import itertools
import math
import random
import struct

import pyarrow as pa
import pytest

from kestrel_sql.functions.declaration import Scalar
from kestrel_sql.functions.table import FUNCTIONS

VECTORS = [
    pytest.param(function, count, id=f"{function.name}-{count}")
    for name in FUNCTIONS
    for function in dict.fromkeys(overload.function for overload in FUNCTIONS.overloads[name])
    if isinstance(function, Scalar) and function.vector is not None
    for count in sorted({text.split("->")[0].count(",") + 1 for text in function.signatures})
]
_EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    709.8,
    -745.2,
    1e308,
    -1e308,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
)
_RANDOM = random.Random(4)
_VALUES = (*_EDGES, *(_RANDOM.uniform(-50, 50) for _ in range(60)), *(_RANDOM.lognormvariate(0, 20) for _ in range(60)))


def bits(value: float | None) -> object:
    """Return a key that distinguishes 0.0 from -0.0 and treats all NaNs as equal."""
    return value if value is None else "nan" if math.isnan(value) else struct.pack(">d", value)


@pytest.mark.parametrize(("function", "count"), VECTORS)
def test_columns_and_rows_agree(function, count):
    rows = list(itertools.product(_VALUES, repeat=count))
    columns = [pa.array([*(row[at] for row in rows), None], pa.float64()) for at in range(count)]
    found = function.vector(*columns).to_pylist()
    assert [bits(value) for value in found] == [*(bits(function.body(*row)) for row in rows), None]


@pytest.mark.parametrize(("function", "count"), VECTORS)
def test_integers_and_constants(function, count):
    wholes = [2**53 + 1, -3, 0, 7, 2**63 - 1]
    for constant in (2, 2**53 + 1):
        rest = [constant] * (count - 1)
        found = function.vector(pa.array(wholes, pa.int64()), *rest).to_pylist()
        assert [bits(value) for value in found] == [bits(function.body(value, *rest)) for value in wholes]


def test_some_functions_have_column_wise_bodies():
    assert {parameter.values[0].name for parameter in VECTORS} >= {"LN", "LOG", "EXP", "POWER"}
