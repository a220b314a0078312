"""All paths of an expression give the same: a share of the generated expressions, and all that fuzzing found."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.sql.parse.parser import parse_expression
from tests.fuzz.expressions import FAILS, Row, batch, batch_of, compared, evaluated, some_rows
from tests.fuzz.generator import COLUMNS, Generator

EXPRESSIONS, ROWS = 40, 60

FOUND: list[tuple[str, dict[str, Any], Any]] = [
    ("MAP(`String_A` := 1, 'x' := 2)", {"String_A": None}, {None: 1, "x": 2}),
    ("TRUNC(`Decimal380_A`, -1)", {"Decimal380_A": Decimal(-1)}, Decimal(0)),
    ("ROUND(`Decimal44_A`, -1)", {"Decimal44_A": Decimal("-0.9999")}, Decimal("0.0000")),
    ("`String_A` LIKE `String_B` ESCAPE '%'", {"String_A": "2020", "String_B": "%"}, FAILS),
    ("`String_A` LIKE `String_B` ESCAPE 'a'", {"String_A": "x", "String_B": "a"}, FAILS),
    ("`String_A` LIKE `String_B` ESCAPE 'a'", {"String_A": "NaN", "String_B": "NaN"}, False),
    ("`String_A` LIKE `String_B` ESCAPE 'a'", {"String_A": "aa%.", "String_B": "aaaa%."}, True),
    ("`String_A` LIKE `String_B` ESCAPE 'a'", {"String_A": "aa%.", "String_B": "aaaaa%."}, True),
    ("`String_A` LIKE `String_B` ESCAPE 'a'", {"String_A": "aax.", "String_B": "aaaaa%."}, False),
    (
        "ARRAY_LENGTH(FILTER(`ArrayString_A`, x => x LIKE `String_B` ESCAPE '!'))",
        {"ArrayString_A": ["%", "a"], "String_B": "!%"},
        1,
    ),
    ("CAST(`String_A` AS DECIMAL(4, 2))", {"String_A": "٣.٤"}, Decimal("3.40")),
    ("CAST(`String_A` AS DECIMAL(4, 2))", {"String_A": "\U0001d7cf"}, FAILS),
    ("CAST(`String_A` AS INTEGER)", {"String_A": " -٣４ "}, -34),
    ("CAST(`String_A` AS INTEGER)", {"String_A": "\uff12147483648"}, FAILS),
    ("CAST(`String_A` AS INTEGER)", {"String_A": "\U0001d7cf"}, FAILS),
    ("CAST(`String_A` AS BIGINT)", {"String_A": "0" * 50 + "-\uff19"}, FAILS),
    ("CAST(`String_A` AS BIGINT)", {"String_A": "-" + "0" * 50 + "\uff19"}, -9),
    ("CAST(`String_A` AS BIGINT)", {"String_A": "9" * 60}, FAILS),
    ("CAST(`String_A` AS DOUBLE)", {"String_A": "٣"}, FAILS),
    ("`MapStringInteger_A`[`Integer_A`]", {"MapStringInteger_A": {"1": 2}, "Integer_A": 1}, None),
    ("`MapStringInteger_A`[1 / `Integer_A`]", {"MapStringInteger_A": {"1": 2}, "Integer_A": 0}, FAILS),
    ("MAP(`Decimal62_A` := 1)[CAST(`Decimal62_A` AS DECIMAL(7, 3))]", {"Decimal62_A": Decimal("1.00")}, None),
    ("MAP(`Decimal62_A` := 1)[CAST(`Decimal62_A` AS DECIMAL(9, 2))]", {"Decimal62_A": Decimal("1.00")}, 1),
    ("CBRT(`Bigint_A`)", {"Bigint_A": 790188741638808769}, 924507.1605499907),
    ("CBRT(`Double_A`)", {"Double_A": -1e-310}, -4.641588833612774e-104),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS STRING)", {"Bigint_A": 2**63 - 1}, "+292278994-08-17T07:12:55.807"),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS STRING)", {"Bigint_A": -(2**63)}, "+292278994-08-17T07:12:55.192"),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS STRING)", {"Bigint_A": -62135596800001}, "0001-12-31T23:59:59.999"),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS STRING)", {"Bigint_A": -62135596800000}, "0001-01-01T00:00:00.000"),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS STRING)", {"Bigint_A": -62167219200001}, "0002-12-31T23:59:59.999"),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS STRING)", {"Bigint_A": 253402300799999}, "9999-12-31T23:59:59.999"),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS STRING)", {"Bigint_A": 253402300800000}, "+10000-01-01T00:00:00.000"),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE)", {"Bigint_A": 2**63 - 1}, -622_191_233),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE)", {"Bigint_A": -(2**31) * 86_400_000}, -(2**31)),
    ("CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE)", {"Bigint_A": -(2**31) * 86_400_000 - 1}, 2**31 - 1),
    ("CAST(CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE) AS STRING)", {"Bigint_A": -(2**31) * 86_400_000}, "-5877641-06-23"),
    (
        "CAST(CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE) AS STRING)",
        {"Bigint_A": (2**31 - 1) * 86_400_000},
        "+5881580-07-11",
    ),
    ("CAST(CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE) AS STRING)", {"Bigint_A": -800_000 * 86_400_000}, "-0221-09-04"),
    ("CAST(CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE) AS STRING)", {"Bigint_A": -62_135_596_800_001}, "0000-12-31"),
    ("CAST(CAST(FROM_UNIXTIME(`Bigint_A`) AS DATE) AS STRING)", {"Bigint_A": -1}, "1969-12-31"),
    ("GEO_DISTANCE(2.5E0, `Double_A`, 0E0, 0E0)", {"Double_A": math.nan}, math.nan),
    ("LPAD(`String_A`, `Integer_A`, `String_B`)", {"String_A": "x", "Integer_A": 2**31 - 1, "String_B": ""}, None),
    ("RPAD(`Bytes_A`, `Integer_A`, `Bytes_B`)", {"Bytes_A": b"x", "Integer_A": 2**31 - 1, "Bytes_B": b""}, None),
    ("CAST(`Double_A` AS DECIMAL(38, 0))", {"Double_A": 6.173657026130746e17}, Decimal(617365702613074560)),
    ("ROUND(`Double_A`, 400)", {"Double_A": 6.173657026130746e17}, 6.173657026130746e17),
    ("CAST(`String_A` AS BYTES)", {"String_A": "a\nb"}, FAILS),
    ("CAST(`String_A` AS BYTES)", {"String_A": "ab="}, FAILS),
    ("CAST(`String_A` AS BYTES)", {"String_A": " ab "}, b"i"),
    ("TO_BYTES(`String_A`, 'base64')", {"String_A": "ab="}, FAILS),
    ("INSTR(`String_A`, CONVERT_FROM(`Bytes_A`, 'utf8'), 1, 1)", {"String_A": "x", "Bytes_A": b"\xff"}, FAILS),
    (
        "ARRAY_DISTINCT(`ArrayDouble_A`)",
        {"ArrayDouble_A": [None, 0.0, -0.0, math.nan, math.nan]},
        [None, 0.0, -0.0, math.nan],
    ),
    ("ARRAY_DISTINCT(ARRAY[`ArrayDouble_A`])", {"ArrayDouble_A": [-0.0]}, [[-0.0]]),
    ("ARRAY_EXCEPT(`ArrayDouble_A`, ARRAY[0E0])", {"ArrayDouble_A": [0.0, -0.0]}, [-0.0]),
    ("ARRAY_CONTAINS(`ArrayDouble_A`, 0E0)", {"ArrayDouble_A": [-0.0]}, False),
    ("ROUND(`Decimal3810_A`)", {"Decimal3810_A": Decimal("-0.5000000001")}, Decimal(-1)),
    ("ROUND(`Decimal3810_A`)", {"Decimal3810_A": Decimal("-0.5000000000")}, Decimal(0)),
    (
        "ROUND(`Decimal3810_A`)",
        {"Decimal3810_A": Decimal("9999999999999999999999999999.4999999999")},
        Decimal("9" * 28),
    ),
    ("ROUND(`Decimal3810_A`)", {"Decimal3810_A": Decimal("9999999999999999999999999999.5000000000")}, Decimal(10**28)),
    ("ROUND(`Decimal44_A`)", {"Decimal44_A": Decimal("0.5000")}, Decimal(1)),
    (
        "ENTRIES(MAP(`String_A` := 1), IS_JSON_STRING(`String_B`))",
        {"String_A": "a", "String_B": "1"},
        [{"K": "a", "V": 1}],
    ),
    (
        "HEADER_VALUES(ARRAY[STRUCT(KEY := 'a', VALUE := TO_BYTES('01', 'hex'))], `String_A` + `String_B`)",
        {"String_A": "", "String_B": "a"},
        [b"\x01"],
    ),
    ("ATAN2(`Double_A`, `Double_B`)", {"Double_A": -0.0, "Double_B": -1.0}, -math.pi),
    ("ATAN2(`Double_A`, `Double_B`)", {"Double_A": 0.0, "Double_B": -0.0}, math.pi),
    ("ATAN2(`Double_A`, `Double_B`)", {"Double_A": -0.0, "Double_B": math.inf}, -0.0),
    ("ATAN2(`Double_A`, `Double_B`)", {"Double_A": 0.0, "Double_B": math.nan}, math.nan),
    ("LOG(`Double_A`, `Double_B`)", {"Double_A": 2.0, "Double_B": None}, None),
    ("CAST(`ArrayDouble_A` AS STRING)", {"ArrayDouble_A": [5e-324, -5e-324]}, "[4.9E-324, -4.9E-324]"),
    (
        "`Decimal380_A` % `Decimal44_A`",
        {"Decimal380_A": Decimal("9" * 38), "Decimal44_A": Decimal("0.0007")},
        FAILS,
    ),
    ("COSH(`Double_A`)", {"Double_A": 710.4758600739439}, 1.7976931348621744e308),
    ("COT(`Double_A`)", {"Double_A": -0.0}, -math.inf),
    ("SIN(`Double_A`) + COS(`Double_A`) + TAN(`Double_A`)", {"Double_A": -math.inf}, math.nan),
    ("`Decimal44_A` / `Bigint_A`", {"Decimal44_A": Decimal("-0.4569"), "Bigint_A": 31}, FAILS),
    (
        "`Decimal44_A` / `Bigint_A`",
        {"Decimal44_A": Decimal("-0.4569"), "Bigint_A": 2},
        Decimal("-0.22845").quantize(Decimal("1e-24")),
    ),
    (
        "CAST(`Decimal62_A` AS DECIMAL(20, 10)) / `Decimal62_B`",
        {"Decimal62_A": Decimal("1.00"), "Decimal62_B": Decimal("3.00")},
        FAILS,
    ),
    (
        "CAST(`Decimal62_A` AS DECIMAL(20, 10)) / `Decimal62_B`",
        {"Decimal62_A": Decimal("1.00"), "Decimal62_B": Decimal("8.00")},
        Decimal("0.125").quantize(Decimal("1e-17")),
    ),
    ("GREATEST(`Decimal62_A`, `Decimal44_A`)", {"Decimal62_A": Decimal("1.50"), "Decimal44_A": None}, Decimal("1.50")),
    (
        "CAST(LEAST(`Decimal62_A`, `Decimal44_A`) AS STRING)",
        {"Decimal62_A": Decimal("-1.50"), "Decimal44_A": Decimal("0.1000")},
        "-1.50",
    ),
    (
        "TRANSFORM(ARRAY[`Decimal62_A`], x => TRANSFORM(ARRAY[`Decimal44_A`], y => GREATEST(x, y)))",
        {"Decimal62_A": Decimal("0.10"), "Decimal44_A": Decimal("0.1000")},
        [[Decimal("0.10")]],
    ),
    ("GENERATE_SERIES(`Bigint_A`, `Bigint_B`)", {"Bigint_A": 2**63 - 1, "Bigint_B": -1}, [2**63 - 1]),
    ("GENERATE_SERIES(`Bigint_A`, `Bigint_B`, 2)", {"Bigint_A": -1, "Bigint_B": 2**63 - 1}, FAILS),
    ("LPAD(NULL, `Integer_A`, `Bytes_A`)", {"Integer_A": 2, "Bytes_A": b"x"}, None),
    ("ARRAY_REMOVE(`ArrayDouble_A`, 0E0)", {"ArrayDouble_A": [0.0, -0.0]}, [-0.0]),
    ("CAST(`Double_A` AS DECIMAL(38, 18))", {"Double_A": 1.005}, Decimal("1.004999999999999893")),
    (
        "CAST(`Double_A` AS DECIMAL(38, 0))",
        {"Double_A": 123456789012345678901234567890.0},
        Decimal(123456789012345677877719597056),
    ),
    ("CAST(`Double_A` AS DECIMAL(6, 2))", {"Double_A": -math.inf}, FAILS),
    ("CAST(`Double_A` AS DECIMAL(6, 2))", {"Double_A": 9999.995}, FAILS),
    (
        "CAST(`ArrayDouble_A` AS ARRAY<DECIMAL(20, 18)>)",
        {"ArrayDouble_A": [0.15, None]},
        [Decimal("0.149999999999999994"), None],
    ),
    (
        "TRANSFORM(`ArrayDouble_A`, x => CAST(x AS DECIMAL(20, 18)))",
        {"ArrayDouble_A": [-0.1]},
        [Decimal("-0.100000000000000006")],
    ),
    ("CASE WHEN `Boolean_A` THEN CAST(`Double_A` AS DECIMAL(6, 2)) END", {"Boolean_A": False, "Double_A": 1e9}, None),
    ("`Decimal62_A` <> `Double_A`", {"Decimal62_A": Decimal("1.50"), "Double_A": math.nan}, FAILS),
    ("`Double_A` IS DISTINCT FROM `Decimal62_A`", {"Decimal62_A": Decimal("1.50"), "Double_A": math.inf}, FAILS),
    ("`Double_A` IS DISTINCT FROM `Decimal62_A`", {"Double_A": math.inf}, True),
    ("`Double_A` >= `Decimal62_A`", {"Double_A": -math.inf}, False),
    ("`Decimal62_A` IN (`Double_A`)", {"Decimal62_A": Decimal("1.50"), "Double_A": math.nan}, False),
    ("`Decimal62_A` BETWEEN 3 AND `Double_A`", {"Decimal62_A": Decimal("1.50"), "Double_A": math.nan}, False),
    ("`Decimal62_A` BETWEEN 1 AND `Double_A`", {"Decimal62_A": Decimal("1.50"), "Double_A": math.nan}, FAILS),
    ("`Decimal62_A` BETWEEN `Double_A` AND 2", {"Decimal62_A": Decimal("1.50"), "Double_A": 1.5}, True),
    ("`Decimal3810_A` = `Double_A`", {"Decimal3810_A": Decimal("0.1000000000"), "Double_A": 0.1}, True),
    (
        "`Decimal3810_A` > `Double_A`",
        {"Decimal3810_A": Decimal("9007199254740993.0000000000"), "Double_A": 9007199254740992.0},
        True,
    ),
    (
        "FILTER(`ArrayDouble_A`, x => x < `Decimal62_A`)",
        {"ArrayDouble_A": [1.0, 2.0], "Decimal62_A": Decimal("1.00")},
        [],
    ),
    (
        "FILTER(`ArrayDouble_A`, x => x < `Decimal62_A`)",
        {"ArrayDouble_A": [1.0], "Decimal62_A": Decimal("2.00")},
        [1.0],
    ),
    ("`Decimal62_A` <= `Integer_A` + 3", {}, False),
    ("`Decimal62_A` <= `Integer_A` + 3", {"Decimal62_A": Decimal("1.50")}, FAILS),
    ("`Integer_A` + 3 <= `Decimal62_A`", {}, FAILS),
    ("`Decimal62_A` IS DISTINCT FROM `Integer_A` + 3", {}, FAILS),
    ("`Bigint_A` = 1 / `Integer_A`", {"Integer_A": 0}, False),
    ("`String_A` < CASE WHEN NOT `Boolean_A` THEN 'a' END", {}, False),
    ("`Bigint_A` BETWEEN 5 AND `Integer_A` + 3", {"Bigint_A": 4}, False),
    ("`Bigint_A` BETWEEN 5 AND `Integer_A` + 3", {"Bigint_A": 6}, FAILS),
    ("`Bigint_A` BETWEEN `Integer_A` + 3 AND 5", {}, False),
    ("ROUND(`Decimal62_A`, 2147483647)", {"Decimal62_A": Decimal("1.50")}, FAILS),
    ("ROUND(`Decimal62_A`, -2147483648)", {"Decimal62_A": Decimal("0.00")}, Decimal("0.00")),
    ("TRUNC(`Double_A`, 846108463)", {"Double_A": -0.9999}, FAILS),
    ("TRUNC(`Double_A`, -1000000)", {"Double_A": -0.9999}, 0.0),
    ("ROUND(`Decimal62_A`, -1000000)", {"Decimal62_A": Decimal("1.50")}, Decimal("0.00")),
    ("ARRAY_JOIN(ARRAY[`MapStringInteger_A`, `MapStringInteger_B`], '-')", {}, "null-null"),
    ("ARRAY_JOIN(ARRAY[`MapStringInteger_A`], '-')", {"MapStringInteger_A": {"a": 1}}, FAILS),
    ("ARRAY_JOIN(`ArrayBytes_A`)", {"ArrayBytes_A": [None, None]}, "null,null"),
    ("ARRAY_JOIN(`ArrayBytes_A`)", {"ArrayBytes_A": [b"a"]}, FAILS),
    ("ARRAY_SORT(ARRAY[`ArrayString_A`, `ArrayString_B`])", {"ArrayString_B": ["b"]}, [["b"], None]),
    ("ARRAY_SORT(ARRAY[`ArrayString_A`, `ArrayString_B`], 'DESC')", {}, [None, None]),
    ("ARRAY_SORT(ARRAY[`ArrayString_A`, `ArrayString_B`], 'X')", {"ArrayString_B": ["b"]}, None),
    (
        "ARRAY_SORT(ARRAY[`MapStringInteger_A`, `MapStringInteger_B`])",
        {"MapStringInteger_A": {"a": 1}, "MapStringInteger_B": {"a": 1}},
        FAILS,
    ),
]
"""What once differed: an expression, the columns that are not NULL, and what Java gives."""


def bound_and_row(text: str, columns: dict[str, Any]) -> tuple[Bound, Row]:
    return bind(parse_expression(text), COLUMNS), {**dict.fromkeys(COLUMNS), **columns}


@pytest.mark.rules("U4.5", "U4.6", "L4.4.4", "L4.5.1", "L4.6.5", "L4.6.6", "L4.6.8", "L4.6.9", "L4.3.14", "U4.7")
@pytest.mark.parametrize(("text", "columns", "expected"), FOUND)
def test_an_expression_gives_what_java_gives(text: str, columns: dict[str, Any], expected: Any) -> None:
    bound, row = bound_and_row(text, columns)
    outcome = FAILS if expected is FAILS else ("value", expected)
    assert repr(evaluated(bound, [row], nested=False)[0]) == repr(outcome)
    assert not list(map(str, compared(bound, [row], nested=False)))


def test_a_share_of_all_expressions() -> None:
    assert not list(map(str, batch(1, EXPRESSIONS, ROWS)[1]))


def test_every_operator_and_cast() -> None:
    rng = random.Random(3)
    bounds, rows = list(Generator(rng).each_operator()), some_rows(rng, 20)
    assert len(bounds) > 200
    assert not list(map(str, batch_of(bounds, rows, nested=False)[1]))


def test_a_call_of_every_overload() -> None:
    rng = random.Random(2)
    calls, rows = list(Generator(rng).each_overload()), some_rows(rng, 12)
    assert not list(map(str, batch_of(calls, rows, nested=True)[1]))


@pytest.mark.nightly
def test_a_call_of_every_overload_with_a_null_for_each_argument() -> None:
    rng = random.Random(5)
    calls, rows = list(Generator(rng).each_overload_with_nulls()), some_rows(rng, 6)
    assert not list(map(str, batch_of(calls, rows, nested=True)[1]))
