from __future__ import annotations

from decimal import Decimal as Number
from math import inf, isnan, nan, sqrt
from typing import Any

import pytest

from kestrel_qtt.ksqldb import corpus_aggregates as corpus
from kestrel_sql.errors import FunctionError, QueryError
from kestrel_sql.functions.declaration import Aggregate, AggregateCall, Aggregator
from kestrel_sql.functions.library.aggregates import by_offset as offsets
from kestrel_sql.functions.library.aggregates import collections as collections
from kestrel_sql.functions.library.aggregates import count_distinct as distinct
from kestrel_sql.functions.library.aggregates import extremes as extremes
from kestrel_sql.functions.library.aggregates import statistics as statistics
from kestrel_sql.functions.library.aggregates import sums as arithmetic
from kestrel_sql.functions.library.collections.table_functions import cube_explode
from kestrel_sql.functions.registry import collect
from kestrel_sql.functions.resolve import result_type
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.types.sql_types import BIGINT, BYTES, DOUBLE, INTEGER, STRING, Array, Decimal, Field, SqlType, Struct

MODULES = (arithmetic, collections, corpus, distinct, extremes, offsets, statistics)


def aggregator_of(
    function: Aggregate, *types: SqlType, literals: tuple[Any, ...] = (), settings: dict[str, str] | None = None
) -> Aggregator:
    return function.factory(AggregateCall(types, types[0] if types else BIGINT, literals, settings or {}))


class Accumulation:
    """One aggregate over values; its state is checkpointed after every step."""

    def __init__(self, aggregator: Aggregator, numbers: Any = None) -> None:
        self.aggregator = aggregator
        self.state = aggregator.initialize()
        self.numbers = numbers or iter(range(1, 10**6))

    def add(self, *rows: Any) -> Accumulation:
        for row in rows:
            arguments = row if isinstance(row, tuple) else (row,)
            if self.aggregator.numbered:
                arguments = (next(self.numbers), *arguments)
            self._keep(self.aggregator.aggregate(self.state, *arguments))
        return self

    def undo(self, *rows: Any) -> Accumulation:
        assert self.aggregator.undo is not None
        for row in rows:
            self._keep(self.aggregator.undo(self.state, *(row if isinstance(row, tuple) else (row,))))
        return self

    def merge(self, other: Accumulation) -> Accumulation:
        self._keep(self.aggregator.merge(self.state, other.state))
        return self

    def _keep(self, state: Any) -> None:
        self.state = load_state(dump_state({"state": state}))["state"]

    @property
    def result(self) -> Any:
        return self.aggregator.result(self.state)


def accumulation(function: Aggregate, *types: SqlType, **more: Any) -> Accumulation:
    return Accumulation(aggregator_of(function, *types, **more))


def merged(aggregator: Aggregator, *accumulations: Accumulation) -> Accumulation:
    """Merge into a fresh state, as session windows do."""
    whole = Accumulation(aggregator, accumulations[0].numbers)
    for part in accumulations:
        whole.merge(part)
    return whole


def test_every_signature_parses_and_every_aggregate_has_a_docstring() -> None:
    registry = collect(*MODULES)
    assert all(overload.function.doc for name in registry for overload in registry.get(name))
    assert {name for name in registry if any(o.function.undoable for o in registry.get(name))} == {
        *(
            "ATTR",
            "AVG",
            "COLLECT_LIST",
            "CORRELATION",
            "COUNT",
            "HISTOGRAM",
            "STDDEV_SAMP",
            "STDDEV_SAMPLE",
            "SUM",
            "SUM_LIST",
        ),
        "TEST_UDAF",
    }


def test_undoable_aggregates_have_an_undo() -> None:
    for name, overloads in collect(*MODULES).overloads.items():
        for overload in overloads:
            arguments = (Array(INTEGER),) if name == "SUM_LIST" else (INTEGER,)
            literals = tuple(1 for parameter in overload.signature.parameters if parameter.literal)
            aggregator = overload.function.factory(AggregateCall(arguments, INTEGER, literals, {}))  # type: ignore[union-attr]
            assert aggregator.undo is not None or not overload.function.undoable, name  # type: ignore[union-attr]


def test_count() -> None:
    assert accumulation(arithmetic.count).add((), ()).result == 2
    assert accumulation(arithmetic.count, STRING).add("a", None, "").undo("a", None).result == 1
    assert (
        merged(
            aggregator_of(arithmetic.count),
            accumulation(arithmetic.count).add(()),
            accumulation(arithmetic.count).add(()),
        ).result
        == 2
    )


def test_sum_wraps_integers() -> None:
    assert accumulation(arithmetic.sum_, INTEGER).add(2**31 - 1, None, 1).result == -(2**31)
    assert accumulation(arithmetic.sum_, BIGINT).add(2**63 - 1, 2).result == -(2**63) + 1
    assert accumulation(arithmetic.sum_, INTEGER).add(5).undo(-(2**31), 1).result == 4 - 2**31
    assert accumulation(arithmetic.sum_, DOUBLE).add(0.1, 0.2).undo(0.1).result == 0.1 + 0.2 - 0.1


def test_sum_of_decimals_is_exact_and_must_fit_its_type() -> None:
    wide = accumulation(arithmetic.sum_, Decimal(38, 2)).add(
        Number("123456789012345678901234567890123456.78"), Number("0.01")
    )
    assert str(wide.result) == "123456789012345678901234567890123456.79"
    assert str(accumulation(arithmetic.sum_, Decimal(4, 2)).add(None).result) == "0"
    assert (
        str(
            accumulation(arithmetic.sum_, Decimal(4, 2))
            .add(Number("99.98"), Number("0.01"))
            .undo(Number("99.98"))
            .result
        )
        == "0.01"
    )
    with pytest.raises(QueryError, match="Numeric field overflow"):
        accumulation(arithmetic.sum_, Decimal(4, 2)).add(Number("99.99"), Number("0.01"))


def test_sum_list() -> None:
    assert accumulation(arithmetic.sum_list, Array(INTEGER)).add([1, None, 2], None, [2**31 - 1]).result == -(2**31) + 2
    assert accumulation(arithmetic.sum_list, Array(DOUBLE)).add([1.5], []).undo([0.5]).result == 1.0
    assert accumulation(arithmetic.sum_list, Array(BIGINT)).result == 0


def test_avg() -> None:
    assert accumulation(arithmetic.avg, INTEGER).result == 0.0
    assert accumulation(arithmetic.avg, INTEGER).add(1, None, 2).result == 1.5
    assert accumulation(arithmetic.avg, INTEGER).add(2**31 - 1, 1).result == -(2.0**30)
    assert accumulation(arithmetic.avg, BIGINT).add(4, 7).undo(4).result == 7.0
    assert accumulation(arithmetic.avg, DOUBLE).add(4.0).undo(4.0).result == 0.0


def test_stddev_samp_is_the_variance() -> None:
    assert accumulation(statistics.stddev_samp, INTEGER).add(5).result == 0.0
    assert accumulation(statistics.stddev_samp, INTEGER).add(2, None, 4, 9).result == pytest.approx(13.0)
    assert accumulation(statistics.stddev_samp, DOUBLE).add(2.0, 4.0, 9.0, 1.0).undo(1.0).result == pytest.approx(13.0)
    assert accumulation(statistics.stddev_sample, BIGINT).add(2, 4, 9).result == pytest.approx(sqrt(13.0))


def test_stddev_samp_merges_by_integer_means() -> None:
    def both(function: Aggregate) -> float:
        first, second = accumulation(function, INTEGER).add(1, 2), accumulation(function, INTEGER).add(-4, -5)
        result: float = merged(aggregator_of(function, INTEGER), first, second).result
        return result

    # In Java's integer division the means 1.5 and -4.5 are 1 and -4: 0.5 + 0.5 + 5 * 5 * 2 * 2 / 4 = 26.
    assert both(statistics.stddev_samp) == pytest.approx(26 / 3)
    assert both(statistics.stddev_sample) == pytest.approx(sqrt(37 / 3))


def test_correlation() -> None:
    assert isnan(accumulation(statistics.correlation, INTEGER).add((1, 2), (None, 3), (3, None)).result)
    assert isnan(accumulation(statistics.correlation, INTEGER).add((1, 2), (1, 3)).result)
    assert accumulation(statistics.correlation, DOUBLE).add((1.0, 2.0), (2.0, 4.0), (3.0, 6.0)).result == 1.0
    assert (
        accumulation(statistics.correlation, DOUBLE).add((1.0, 2.0), (2.0, 1.0), (9.0, 9.0)).undo((9.0, 9.0)).result
        == -1.0
    )
    assert isnan(accumulation(statistics.correlation, DOUBLE).add((inf, 1.0), (2.0, 1.0)).result)
    assert isnan(accumulation(statistics.correlation, DOUBLE).add((1e200, 1.0), (2.0, 1.0)).result)


def test_min_and_max_compare_as_java_does() -> None:
    assert accumulation(extremes.max_, INTEGER).result is None
    assert accumulation(extremes.max_, INTEGER).add(None, -5, 3, None).result == 3
    assert accumulation(extremes.min_, INTEGER).add(None, -5, 3).result == -5
    assert accumulation(extremes.max_, STRING).add("\U0001f600", "\uffee").result == "\uffee"
    assert accumulation(extremes.max_, BYTES).add(b"\x80", b"\x01").result == b"\x01"
    assert isnan(accumulation(extremes.max_, DOUBLE).add(inf, nan, 1.0).result)
    assert str(accumulation(extremes.min_, DOUBLE).add(0.0, -0.0).result) == "-0.0"
    assert (
        merged(
            aggregator_of(extremes.max_, INTEGER),
            accumulation(extremes.max_, INTEGER),
            accumulation(extremes.max_, INTEGER).add(1),
        ).result
        == 1
    )


def test_topk_keeps_duplicates_and_topkdistinct_does_not() -> None:
    assert accumulation(extremes.topk, INTEGER, literals=(3,)).add(5, None, 7, 5, 1, 9).result == [9, 7, 5]
    assert accumulation(extremes.topk, STRING, literals=(2,)).add("a").result == ["a"]
    assert accumulation(extremes.topkdistinct, INTEGER, literals=(3,)).add(5, 7, 5, None, 1, 7, 0).result == [7, 5, 1]
    parts = [accumulation(extremes.topk, INTEGER, literals=(3,)).add(*values) for values in ((1, 5), (5, 4, 2))]
    assert merged(aggregator_of(extremes.topk, INTEGER, literals=(3,)), *parts).result == [5, 5, 4]


def test_topk_of_rows_keeps_earlier_rows_with_equal_values() -> None:
    top = accumulation(extremes.topk_structs, INTEGER, STRING, literals=(2,)).add(
        (1, "a"), (1, "b"), (1, "c"), (None, "d"), (2, "e")
    )
    assert top.result == [{"sort_col": 2, "col0": "e"}, {"sort_col": 1, "col0": "a"}]
    choice = collect(extremes).choose("topk", (BIGINT, STRING, DOUBLE, INTEGER))
    expected = Array(Struct((Field("sort_col", BIGINT), Field("col0", STRING), Field("col1", DOUBLE))))
    assert result_type(choice, (BIGINT, STRING, DOUBLE, INTEGER)) == expected


def test_collect_list_and_its_limit() -> None:
    assert accumulation(collections.collect_list, INTEGER).add(1, None, 1).result == [1, None, 1]
    assert accumulation(collections.collect_list, INTEGER).add(1, 2, 1).undo(1, 7).result == [1, 2]
    assert accumulation(collections.collect_list, DOUBLE).add(nan, 1.0).undo(nan).result == [1.0]
    limited = {"ksql.functions.collect_list.limit": "3"}
    parts = [
        accumulation(collections.collect_list, INTEGER, settings=limited).add(*values) for values in ((1, 2), (3, 4))
    ]
    assert merged(aggregator_of(collections.collect_list, INTEGER, settings=limited), *parts).add(9).result == [1, 2, 3]
    assert accumulation(collections.collect_list, INTEGER, settings={"ksql.functions.collect_list.limit": "-1"}).add(
        1
    ).result == [1]


def test_collect_set_and_its_limit() -> None:
    assert accumulation(collections.collect_set, INTEGER).add(2, None, 2, 1, None).result == [2, None, 1]
    assert accumulation(collections.collect_set, DOUBLE).add(nan, nan).result[1:] == []
    limited = {"ksql.functions.collect_set.limit": "2"}
    assert accumulation(collections.collect_set, INTEGER, settings=limited).add(2, 2, 1, 3).result == [2, 1]


def test_histogram_stops_at_a_thousand_keys() -> None:
    assert accumulation(collections.histogram, STRING).add("a", None, "a").undo(None, "a", "b").result == {"a": 1}
    assert accumulation(collections.histogram, STRING).add(None, "a", None).result == {"a": 1, None: 2}
    many = aggregator_of(collections.histogram, STRING)
    state = many.initialize()
    for value in range(1005):
        state = many.aggregate(state, str(value))
    assert len(state) == 1000
    assert many.aggregate(state, "7")["7"] == 2


def test_attr_returns_the_value_that_all_rows_share() -> None:
    assert accumulation(collections.attr, STRING).result is None
    assert accumulation(collections.attr, STRING).add("a", "a").result == "a"
    assert accumulation(collections.attr, STRING).add("a", None).result is None
    assert accumulation(collections.attr, STRING).add("a", "b").undo("b").result == "a"
    parts = [accumulation(collections.attr, STRING).add("a") for _ in range(2)]
    assert merged(aggregator_of(collections.attr, STRING), *parts).result == "a"


def test_latest_and_earliest() -> None:
    assert accumulation(offsets.latest_by_offset, INTEGER).add(1, 2, None).result == 2
    assert accumulation(offsets.latest_by_offset, INTEGER, literals=(False,)).add(1, None).result is None
    assert accumulation(offsets.earliest_by_offset, INTEGER).add(None, 1, 2).result == 1
    assert accumulation(offsets.earliest_by_offset, INTEGER, literals=(False,)).add(None, 1).result is None
    assert accumulation(offsets.latest_n_by_offset, INTEGER, literals=(2,)).add(1, None, 2, 3).result == [2, 3]
    assert accumulation(offsets.latest_n_by_offset, INTEGER, literals=(2, False)).add(1, 2, None).result == [2, None]
    assert accumulation(offsets.earliest_n_by_offset, INTEGER, literals=(2,)).add(None, 1, 2, 3).result == [1, 2]
    assert accumulation(offsets.earliest_n_by_offset, INTEGER, literals=(2,)).result == []
    with pytest.raises(FunctionError, match="earliestN must be 1 or greater"):
        aggregator_of(offsets.earliest_n_by_offset, INTEGER, literals=(0,))


@pytest.mark.parametrize(
    ("function", "literals", "expected"),
    [
        (offsets.latest_by_offset, (), 40),
        (offsets.earliest_by_offset, (), 10),
        (offsets.latest_n_by_offset, (2,), [10, 20]),
        (offsets.earliest_n_by_offset, (2,), [10, 20]),
    ],
)
def test_merge_respects_the_order_of_processing(function: Aggregate, literals: tuple[Any, ...], expected: Any) -> None:
    aggregator = aggregator_of(function, INTEGER, literals=literals)
    first = Accumulation(aggregator)
    second = Accumulation(aggregator, first.numbers)
    first.add(10)
    second.add(20, 40 if expected == 40 else 30)
    assert merged(aggregator, second, first).result == expected


def test_count_distinct_is_exact_for_small_groups_and_bounded_for_large_ones() -> None:
    assert accumulation(distinct.count_distinct, STRING).add("a", None, "b", "a").result == 2
    assert accumulation(distinct.count_distinct, STRING).add({"a": 1, "b": 2}, {"b": 2, "a": 1}).result == 1
    aggregator = aggregator_of(distinct.count_distinct, BIGINT)
    halves = [aggregator.initialize(), aggregator.initialize()]
    for value in range(100_000):
        halves[value % 2] = aggregator.aggregate(halves[value % 2], value)
    assert aggregator.result(halves[0]) == pytest.approx(50_000, rel=0.03)
    both = aggregator.merge(aggregator.merge(aggregator.initialize(), halves[0]), halves[1])
    assert aggregator.result(both) == pytest.approx(100_000, rel=0.03)
    assert len(dump_state(both)) < 20_000


def test_results_do_not_share_objects_with_the_state() -> None:
    for function in (collections.collect_list, collections.collect_set, collections.histogram):
        aggregator = aggregator_of(function, STRING)
        state = aggregator.aggregate(aggregator.initialize(), "a")
        before = aggregator.result(state)
        aggregator.aggregate(state, "b")
        assert len(before) == 1


def test_aggregates_of_the_ksqldb_corpus() -> None:
    assert (
        accumulation(corpus.test_udaf_int, INTEGER, settings={"ksql.functions.test_udaf.init": "5"})
        .add(1)
        .undo(2)
        .result
        == 4
    )
    assert accumulation(corpus.test_udaf_string, STRING, literals=("abc",)).add("de", None).result == 5
    assert accumulation(corpus.test_udaf_struct, STRING).add({"A": 1, "B": 2}, {"A": 3, "B": None}).result == {
        "A": 4,
        "B": 2,
    }
    assert accumulation(corpus.multi_arg, BIGINT, STRING, literals=(10, "ab")).add((1, "x"), (None, None)).result == 14
    assert accumulation(corpus.mid_var_arg, BIGINT, literals=(10, 20)).add((1, "ab", "c"), (2,)).result == 36
    assert accumulation(corpus.obj_col_arg, INTEGER).add((1, "a"), (2, None), (None, "b"), (3, "c")).result == [1, 3]


def test_cube_explode() -> None:
    assert cube_explode.body(None) == []
    assert cube_explode.body([]) == [[]]
    assert cube_explode.body([1, None, 2]) == [[None, None, None], [None, None, 2], [1, None, None], [1, None, 2]]
    with pytest.raises(QueryError, match="20"):
        cube_explode.body([1] * 21)
