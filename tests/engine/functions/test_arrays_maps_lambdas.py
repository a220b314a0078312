"""Edge cases of the functions of arrays, maps and lambdas, with NULL in every place."""

from __future__ import annotations

import math
from decimal import Decimal as Number

import pytest

from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, INTEGER, STRING, Array, Decimal, Map
from tests.engine.functions.values import outcomes

COLUMNS = {
    "NO_INTS": (Array(INTEGER), None),
    "NO_MAP": (Map(STRING, INTEGER), None),
    "NO_TEXT": (STRING, None),
    "NO_INT": (INTEGER, None),
    "NO_FLAG": (BOOLEAN, None),
    "EMPTY": (Array(INTEGER), []),
    "EMPTY_MAP": (Map(STRING, INTEGER), {}),
    "INTS": (Array(INTEGER), [3, None, 1, 3]),
    "BIG": (BIGINT, 3_000_000_000),
    "DOUBLES": (Array(DOUBLE), [1.5, math.nan, -12345.678, None, 1e10]),
    "DECIMALS": (Array(Decimal(9, 2)), [Number("1.50"), Number("-2.00")]),
    "FLAGS": (Array(BOOLEAN), [True, None, False]),
    "BLOBS": (Array(BYTES), [b"\0"]),
    "DATES": (Array(DATE), [1]),
    "TEXTS": (Array(STRING), ["fo", None, "F", "foo"]),
    "LISTS": (Array(Array(STRING)), [["a", None], ["a", None], None, None, ["a"]]),
    "ONE_LIST": (Array(STRING), ["a", None]),
    "MAPS": (Array(Map(STRING, INTEGER)), [{"a": 1, "b": 2}, {"b": 2, "a": 1}, None, {"a": 3}, None]),
    "OTHER_MAPS": (Array(Map(STRING, INTEGER)), [{"a": 3}, None]),
    "ONE_MAP": (Map(STRING, INTEGER), {"a": 1, "b": 2}),
    "NULL_VALUES": (Map(STRING, INTEGER), {"a": None, "bb": 2}),
    "WORDS": (Map(STRING, DOUBLE), {"yes, thanks": 3.5, "sure, yeah": 2.1, "nope": 7.3}),
    "NESTED": (Map(STRING, Array(INTEGER)), {"a": [2, None, 5, 4], "b": [-1, -2]}),
}
TYPES = {name: sql_type for name, (sql_type, _) in COLUMNS.items()}
ROW = {name: value for name, (_, value) in COLUMNS.items()}

UNUSUAL = ["", "é", "😀", "Aa", "BB", "\uffff", *(f"key {i}" for i in range(30))]
"""Keys with characters of one and two UTF-16 units, and two keys with equal hashes."""

CASES = {
    "ARRAY_CONCAT(NULL, INTS)": [3, None, 1, 3],
    "ARRAY_CONTAINS(NULL, NULL)": False,
    "ARRAY_EXCEPT(NULL, INTS)": None,
    "ARRAY_UNION(MAPS, NULL)": None,
    "ARRAY_UNION(NULL, MAPS)": None,
    "ARRAY_REMOVE(NULL, 3)": None,
    "ARRAY_REMOVE(MAPS, NULL)": [{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 3}],
    "AS_MAP(NULL, INTS)": None,
    "MAP_UNION(NULL, ONE_MAP)": {"a": 1, "b": 2},
    "MAP_KEYS(NULL)": None,
    "ARRAY_LENGTH(NULL)": None,
    "ARRAY_CONCAT(NO_INTS, INTS)": [3, None, 1, 3],
    "ARRAY_CONCAT(INTS, NO_INTS)": [3, None, 1, 3],
    "ARRAY_CONCAT(NO_INTS, NO_INTS)": None,
    "ARRAY_CONTAINS(INTS, NO_INT)": True,
    "ARRAY_CONTAINS(EMPTY, NO_INT)": False,
    "ARRAY_CONTAINS(NO_INTS, 1)": False,
    "ARRAY_CONTAINS(INTS, 2)": False,
    "ARRAY_CONTAINS(INTS, 1)": True,
    "ARRAY_CONTAINS(TEXTS, 'F')": True,
    "ARRAY_CONTAINS(LISTS, ONE_LIST)": True,
    "ARRAY_CONTAINS(MAPS, ONE_MAP)": True,
    "ARRAY_CONTAINS(OTHER_MAPS, ONE_MAP)": False,
    "ARRAY_CONTAINS(MAPS, NO_MAP)": True,
    "ARRAY_CONTAINS(MAPS, NULL)": True,
    "ARRAY_DISTINCT(INTS)": [3, None, 1],
    "ARRAY_DISTINCT(NO_INTS)": None,
    "ARRAY_DISTINCT(LISTS)": [["a", None], None, ["a"]],
    "ARRAY_DISTINCT(MAPS)": [{"a": 1, "b": 2}, None, {"a": 3}],
    "ARRAY_EXCEPT(INTS, ARRAY[1])": [3, None],
    "ARRAY_EXCEPT(INTS, NO_INTS)": None,
    "ARRAY_EXCEPT(MAPS, OTHER_MAPS)": [{"a": 1, "b": 2}],
    "ARRAY_INTERSECT(INTS, ARRAY[NULL, 1, 7])": [None, 1],
    "ARRAY_INTERSECT(INTS, NO_INTS)": None,
    "ARRAY_INTERSECT(MAPS, OTHER_MAPS)": [None, {"a": 3}],
    "ARRAY_INTERSECT(MAPS, NULL)": None,
    "ARRAY_UNION(INTS, ARRAY[2, 3])": [3, None, 1, 2],
    "ARRAY_UNION(NO_INTS, INTS)": None,
    "ARRAY_UNION(OTHER_MAPS, MAPS)": [{"a": 3}, None, {"a": 1, "b": 2}],
    "ARRAY_REMOVE(INTS, NO_INT)": [3, 1, 3],
    "ARRAY_REMOVE(INTS, 3)": [None, 1],
    "ARRAY_REMOVE(NO_INTS, 3)": None,
    "ARRAY_REMOVE(LISTS, ONE_LIST)": [None, None, ["a"]],
    "ARRAY_REMOVE(MAPS, ONE_MAP)": [None, {"a": 3}, None],
    "ARRAY_JOIN(DOUBLES)": "1.5,NaN,-12345.678,null,1.0E10",
    "ARRAY_JOIN(DECIMALS, '|')": "1.50|-2.00",
    "ARRAY_JOIN(FLAGS, NO_TEXT)": "truenullfalse",
    "ARRAY_JOIN(NO_INTS, '|')": None,
    "ARRAY_JOIN(EMPTY, '|')": "",
    "ARRAY_JOIN(LISTS, '|')": None,
    "ARRAY_JOIN(BLOBS, '|')": None,
    "ARRAY_JOIN(DATES, '|')": None,
    "ARRAY_LENGTH(NO_INTS)": None,
    "ARRAY_LENGTH(MAPS)": 5,
    "ARRAY_MAX(EMPTY)": None,
    "ARRAY_MAX(TEXTS)": "foo",
    "ARRAY_MIN(TEXTS)": "F",
    "ARRAY_MAX(FLAGS)": True,
    "ARRAY_MIN(DOUBLES)": -12345.678,
    "ARRAY_MAX(MAPS)": None,
    "ARRAY_SORT(INTS)": [1, 3, 3, None],
    "ARRAY_SORT(INTS, 'ascending')": [1, 3, 3, None],
    "ARRAY_SORT(TEXTS, 'desc')": ["foo", "fo", "F", None],
    "ARRAY_SORT(INTS, 'up')": None,
    "ARRAY_SORT(INTS, NO_TEXT)": None,
    "ARRAY_SORT(NO_INTS, 'DESC')": None,
    "ARRAY_SORT(MAPS)": None,
    "SLICE(INTS, NULL, 2)": [3, None],
    "SLICE(INTS, 3, NULL)": [1, 3],
    "SLICE(INTS, 3, 2)": [],
    "SLICE(INTS, 4, 2)": None,
    "SLICE(INTS, 0, 2)": None,
    "SLICE(INTS, 1, 5)": None,
    "SLICE(NO_INTS, 1, 2)": None,
    "GENERATE_SERIES(3, 3)": [3],
    "GENERATE_SERIES(3, 1)": [3, 2, 1],
    "GENERATE_SERIES(1, 4, 2)": [1, 3],
    "GENERATE_SERIES(1, 4, -1)": None,
    "GENERATE_SERIES(4, 1, 1)": None,
    "GENERATE_SERIES(1, 4, 0)": None,
    "GENERATE_SERIES(1, NO_INT)": None,
    "GENERATE_SERIES(BIG, BIG + 1)": [3000000000, 3000000001],
    "GENERATE_SERIES(BIG, BIG - 4, -2)": [3000000000, 2999999998, 2999999996],
    "GENERATE_SERIES(BIG, 9000000000000000000)": None,
    "AS_MAP(ARRAY['a', 'b', 'a'], ARRAY[1])": {"a": None, "b": None},
    "AS_MAP(ARRAY['a', NULL], INTS)": {"a": 3, None: None},
    "AS_MAP(ARRAY['a'], NO_INTS)": None,
    "MAP_UNION(NO_MAP, ONE_MAP)": {"a": 1, "b": 2},
    "MAP_UNION(ONE_MAP, NO_MAP)": {"a": 1, "b": 2},
    "MAP_UNION(ONE_MAP, NULL_VALUES)": {"a": None, "b": 2, "bb": 2},
    "MAP_UNION(NO_MAP, NO_MAP)": None,
    "MAP_KEYS(NO_MAP)": None,
    "MAP_KEYS(EMPTY_MAP)": [],
    "MAP_KEYS(WORDS)": java_hash_order(["yes, thanks", "nope", "sure, yeah"], 3),
    "MAP_KEYS(AS_MAP(ARRAY[" + ", ".join(f"'{key}'" for key in UNUSUAL) + "], INTS))": java_hash_order(
        UNUSUAL, len(UNUSUAL)
    ),
    "MAP_VALUES(WORDS)": [3.5, 2.1, 7.3],
    "MAP_VALUES(NO_MAP)": None,
    "TRANSFORM(ENTRIES(WORDS, FALSE), e => e->V)": [3.5, 2.1, 7.3],
    "TRANSFORM(ENTRIES(WORDS, 1 = 1), e => e->K)": ["nope", "sure, yeah", "yes, thanks"],
    "ENTRIES(NO_MAP, TRUE)": None,
    "ENTRIES(ONE_MAP, NO_FLAG)": None,
    "TRANSFORM(NO_INTS, x => x + 1)": None,
    "TRANSFORM(INTS, x => x + 1)": None,
    "TRANSFORM(INTS, x => ABS(x))": [3, None, 1, 3],
    "TRANSFORM(NESTED, (k, v) => k, (k, v) => ARRAY_LENGTH(FILTER(v, x => x > 2)))": {"a": 2, "b": 0},
    "TRANSFORM(NESTED, (k, v) => k, (k, v) => TRANSFORM(v, x => CONCAT(k, ARRAY_JOIN(ARRAY_REMOVE(v, x)))))": {
        "a": ["anull,5,4", "a2,5,4", "a2,null,4", "a2,null,5"],
        "b": ["b-2", "b-1"],
    },
    "TRANSFORM(ONE_MAP, (k, v) => v, (k, v) => k)": {2: "b", 1: "a"},
    "TRANSFORM(ONE_MAP, (k, v) => 'x', (k, v) => k)": None,
    "TRANSFORM(ONE_MAP, (k, v) => CAST(NULL AS INT), (k, v) => k)": None,
    "TRANSFORM(MAP('a' := 1), (k, v) => CAST(NULL AS STRING), (k, v) => v)": {None: 1},
    "TRANSFORM(NULL_VALUES, (k, v) => k, (k, v) => v)": None,
    "TRANSFORM(NO_MAP, (k, v) => k, (k, v) => v)": None,
    "FILTER(INTS, x => x > 1)": [3, 3],
    "FILTER(INTS, x => x % 2 = 1)": None,
    "FILTER(FLAGS, x => x)": None,
    "FILTER(FLAGS, x => x IS NOT NULL AND NOT x)": [False],
    "FILTER(NO_INTS, x => TRUE)": None,
    "FILTER(NULL_VALUES, (k, v) => LEN(k) > 1)": {"bb": 2},
    "FILTER(NULL_VALUES, (k, v) => LEN(k) < 2)": None,
    "FILTER(NULL_VALUES, (k, v) => v % 2 = 0)": None,
    "FILTER(NO_MAP, (k, v) => TRUE)": None,
    "REDUCE(INTS, 0, (s, x) => s + x)": None,
    "REDUCE(INTS, 0, (s, x) => s + COALESCE(x, 10))": 17,
    "REDUCE(NO_INTS, 5, (s, x) => s + x)": 5,
    "REDUCE(INTS, NO_INT, (s, x) => COALESCE(x, s))": None,
    "REDUCE(INTS, NO_INT, (s, x) => s + x)": None,
    "REDUCE(TEXTS, '', (s, x) => CONCAT(s, x))": "foFfoo",
    "REDUCE(INTS, 0, (s, x) => CASE WHEN x IS NULL THEN CAST(NULL AS INT) WHEN s IS NULL THEN 100 ELSE s + x END)": 103,
    "REDUCE(ARRAY[1, 2], ARRAY[0], (s, x) => ARRAY_CONCAT(s, ARRAY[x]))": [0, 1, 2],
    "REDUCE(WORDS, 3.2E0, (s, k, v) => CASE WHEN INSTR(k, 'ye') > 0 THEN CEIL(v * s) ELSE FLOOR(s * v) END)": 189.0,
    "REDUCE(NO_MAP, 5, (s, k, v) => s + v)": 5,
    "REDUCE(ONE_MAP, NO_INT, (s, k, v) => s + v)": None,
    "REDUCE(NULL_VALUES, 0, (s, k, v) => s + v)": None,
    "REDUCE(ONE_MAP, '', (s, k, v) => s + k)": "ab",
    "REDUCE(MAP(7 := 'a', 2 := 'b'), '', (s, k, v) => s + v)": "ba",
    "REDUCE(NESTED, 0, (s, k, v) => s + REDUCE(v, 1, (t, x) => t + COALESCE(x, s)))": 10,
}


@pytest.mark.parametrize("case", CASES)
def test_edge_case(case):
    ((value, _),) = outcomes(case, TYPES, [ROW])
    assert value == CASES[case]


@pytest.mark.parametrize(
    ("name", "display_name"), [("ARRAY_MAX", "array_max"), ("ARRAY_JOIN", "ARRAY_JOIN"), ("REDUCE", "reduce")]
)
def test_display_name(name, display_name):
    assert {overload.function.display_name for overload in FUNCTIONS.get(name)} == {display_name}
