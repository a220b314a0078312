from __future__ import annotations

import random

import pyarrow as pa

from kestrel_sql.spark.io.columns import before, least, ordinal_order

ORDINALS = pa.list_(pa.int64())


def test_ordinals_are_sorted_like_lists() -> None:
    random_ = random.Random(1)
    for _ in range(200):
        ordinals = [[random_.randrange(3) for _ in range(random_.randrange(4))] for _ in range(random_.randrange(12))]
        cut = random_.randrange(len(ordinals) + 1)
        order = ordinal_order(pa.array([*([9] for _ in range(cut)), *ordinals], ORDINALS)[cut:]).tolist()
        assert order == sorted(range(len(ordinals)), key=ordinals.__getitem__)


def test_ordinals_before_another_are_counted() -> None:
    ordinals = pa.array([[0], [0, 1], [1, 0], [1, 0], [2]], ORDINALS)
    assert [before(ordinals, ordinal) for ordinal in ([0], [0, 0], [1, 0], [1, 1], [9])] == [0, 1, 2, 4, 5]


def test_the_least_of_some_ordinals_is_the_first_in_order() -> None:
    ordinals = [[3, 1], [2, 5], [2], [2, 5, 0], [7]]
    assert least(pa.array(ordinals, pa.list_(pa.int64()))) == [2]
    assert least(pa.array(ordinals[3:], pa.list_(pa.int64()))) == [2, 5, 0]
