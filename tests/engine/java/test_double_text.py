from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from kestrel_sql.java.numbers import java_double
from kestrel_sql.spark.runtime.session import open_test_session

pytestmark = pytest.mark.spark

SHORTEST_SINCE = 19
"""The first JDK with the new `Double.toString`."""


def doubles() -> list[float]:
    """Random bits, whole numbers near 2^63, subnormals, powers of two and ten, and numbers with few digits."""
    chance = random.Random(20)
    bits = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(20_000)]
    return [
        *(x for x in bits if x == x),
        *(float(chance.getrandbits(63)) for _ in range(10_000)),
        *(k * 5e-324 for k in range(5_000)),
        *(2.0**k for k in range(-1074, 1024)),
        *(float(f"{m}e{k}") for k in range(-323, 308) for m in range(1, 10)),
        *(chance.uniform(1e22, 1e28) for _ in range(20_000)),
        *(chance.getrandbits(50) / 2 ** chance.randrange(60) for _ in range(10_000)),
    ]


def test_doubles_are_written_as_the_jvm_writes_them() -> None:
    spark = open_test_session()
    jdk = int(spark._jvm.java.lang.System.getProperty("java.specification.version"))  # type: ignore[union-attr]
    values = doubles()
    rows = spark.createDataFrame(pa.table({"x": pa.array(values, pa.float64())}))
    written = rows.selectExpr("CAST(x AS STRING) AS text").toArrow()["text"].to_pylist()
    compared = [
        (text, java_double(x))
        for text, x in zip(written, values, strict=True)
        if jdk < SHORTEST_SINCE or 1e-3 <= abs(x) < 2**53
    ]
    assert len(compared) > 5_000
    assert [pair for pair in compared if pair[0] != pair[1]] == []
