"""Runs the `Example:` lines of scalar functions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.functions.declaration import Aggregate, Tabular
from kestrel_sql.functions.table import FUNCTIONS
from tests.engine.functions.values import outcome

MORE = (
    "TO_BYTES('80', 'hex') < TO_BYTES('7f', 'hex') -> TRUE",
    "TO_BYTES('00', 'hex') < TO_BYTES('0000', 'hex') -> TRUE",
    "TO_BYTES('00', 'hex') >= TO_BYTES('ff', 'hex') -> TRUE",
    "TO_BYTES('01', 'hex') BETWEEN TO_BYTES('80', 'hex') AND TO_BYTES('7f', 'hex') -> TRUE",
    "FROM_BYTES(ARRAY_MAX(ARRAY[TO_BYTES('80', 'hex'), NULL, TO_BYTES('7f', 'hex')]), 'hex') -> '7F'",
    "FROM_BYTES(ARRAY_MIN(ARRAY[TO_BYTES('00', 'hex'), NULL, TO_BYTES('ff', 'hex')]), 'hex') -> 'FF'",
    "FROM_BYTES(ARRAY_SORT(ARRAY[TO_BYTES('00', 'hex'), NULL, TO_BYTES('ff', 'hex')])[1], 'hex') -> 'FF'",
    "FROM_BYTES(ARRAY_SORT(ARRAY[TO_BYTES('ff', 'hex'), NULL, TO_BYTES('00', 'hex')], 'DESC')[1], 'hex') -> '00'",
    "ARRAY_SORT(ARRAY[TO_BYTES('ff', 'hex'), NULL], 'DESC')[2] IS NULL -> TRUE",
    "ABS(CAST(-2147483648 AS INT)) -> -2147483647 - 1",
    "CEIL(-0.5E0) -> -0E0",
    "CEIL(1E300) -> 1E300",
    "CHR('\\ud83d\\ude00') -> '😀'",
    "CHR(-1) -> NULL",
    "CHR(128512) -> '😀'",
    "CHR('u004b') -> NULL",
    "CONCAT_WS('x') -> NULL",
    "CONCAT_WS(CAST(NULL AS STRING), 'a', 'b') -> NULL",
    "CONCAT(CAST(NULL AS STRING), CAST(NULL AS STRING)) -> ''",
    "COALESCE('a') -> 'a'",
    "DOUBLE_FROM_BYTES(TO_BYTES('00', 'hex')) -> NULL",
    "ELT(3, 'a', 'b') -> NULL",
    "ENCODE('0x161', 'hex', 'base64') -> 'AWE='",
    "ENCODE('X''61''', 'hex', 'utf8') -> 'a'",
    "ENCODE('a', 'utf8', 'hex') -> '61'",
    "ENCODE('a', 'utf8', 'utf8') -> NULL",
    "FIELD(CAST(NULL AS STRING), 'a') -> 0",
    "FLOOR(-0.5E0) -> -1E0",
    "GEO_DISTANCE(91E0, 0E0, 0E0, 0E0) -> NULL",
    "GEO_DISTANCE(1E0, 0E0, 1E0, 0E0, 'leagues') -> NULL",
    "GREATEST(CAST(NULL AS INT), CAST(NULL AS INT)) -> NULL",
    "GREATEST('a') -> 'a'",
    "INSTR('CORPORATE FLOOR', 'OR', 3, 2) -> 14",
    "INSTR('abc', CAST(NULL AS STRING)) -> 0",
    "INSTR('aaaa', 'aa', 1, 3) -> 3",
    "INSTR('abc', 'b', CAST(NULL AS INT)) -> NULL",
    "INT_FROM_BYTES(TO_BYTES('00000102', 'hex'), 'MIDDLE') -> NULL",
    "LEN('😀') -> 2",
    "LN(0) -> -1 / 0E0",
    "CAST(FROM_UNIXTIME(9223372036854775807) AS STRING) -> '+292278994-08-17T07:12:55.807'",
    "CAST(FROM_UNIXTIME(-9223372036854775807 - 1) AS STRING) -> '+292278994-08-17T07:12:55.192'",
    "CAST('' AS TIMESTAMP) -> NULL",
    "CAST('202' AS TIMESTAMP) -> NULL",
    "UNIX_TIMESTAMP(CAST('+2000000-01-01' AS TIMESTAMP)) -> 63051736780800000",
    "UNIX_TIMESTAMP(CAST('2020' AS TIMESTAMP)) -> 1577836800000",
    "UNIX_TIMESTAMP(CAST('2020-01-01T01' AS TIMESTAMP)) -> 1577840400000",
    (
        "CAST(-CAST('-9999999999999999999999999999.9999999999' AS DECIMAL(38, 10)) AS STRING) -> "
        "'9999999999999999999999999999.9999999999'"
    ),
    (
        "CAST(ABS(CAST('-9999999999999999999999999999.9999999999' AS DECIMAL(38, 10))) AS STRING) -> "
        "'9999999999999999999999999999.9999999999'"
    ),
    (
        "CAST(CAST('-1234567890123456789012345678.0000000001' AS DECIMAL(38, 10)) AS STRING) -> "
        "'-1234567890123456789012345678.0000000001'"
    ),
    "CAST(CAST('-0.0000000001' AS DECIMAL(38, 10)) AS STRING) -> '-0.0000000001'",
    "CAST(-CAST('0.0000000001' AS DECIMAL(38, 10)) AS STRING) -> '-0.0000000001'",
    "CAST(CAST('0' AS DECIMAL(38, 10)) AS STRING) -> '0.0000000000'",
    "1E0 / -0E0 -> -1 / 0E0",
    "-1E0 / -0E0 -> 1 / 0E0",
    "5E0 % 0E0 -> 0E0 / 0E0",
    "TRIM(CHR(9) || ' a' || CHR(10)) -> 'a'",
    "TRIM('\u00e9') -> '\u00e9'",
    "LOG(1, 5) -> 0E0 / 0E0",
    "POWER(-8, 0.5E0) -> 0E0 / 0E0",
    "POWER(0, -1) -> 1 / 0E0",
    "POWER(-10, 309) -> -1 / 0E0",
    "LPAD('abc', 2, '-') -> 'ab'",
    "LPAD('abc', -1, '-') -> NULL",
    "LPAD('abc', 5, '') -> NULL",
    "FROM_BYTES(LPAD(TO_BYTES('01', 'hex'), 3, TO_BYTES('ff', 'hex')), 'hex') -> 'FFFF01'",
    "NULLIF(1, CAST(NULL AS INT)) -> 1",
    "MAP(CAST(NULL AS STRING) := 1)[CAST(NULL AS STRING)] -> 1",
    "NULLIF(MAP('a' := 1, 'b' := 2), MAP('b' := 2, 'a' := 1)) -> NULL",
    "NULLIF(ARRAY[MAP('a' := 1)], ARRAY[MAP('a' := 2)]) -> ARRAY[MAP('a' := 1)]",
    "REPLACE('ab', '', '-') -> '-a-b-'",
    "REPLACE('', '', '-') -> '-'",
    "MASK('Ab1 ', NULL, '_', NULL, '+') -> 'A_1+'",
    "MASK('a', 'XX', NULL, NULL, NULL) -> NULL",
    "MASK_LEFT('abc', -1) -> NULL",
    "MASK_RIGHT('abc', 9) -> 'xxx'",
    "MASK_KEEP_RIGHT('abc', 9) -> 'abc'",
    "REGEXP_EXTRACT('a(b)?', 'a', 1) -> NULL",
    "REGEXP_EXTRACT('x', 'a') -> NULL",
    "REGEXP_EXTRACT('a', 'a', 1) -> NULL",
    "REGEXP_EXTRACT('(', 'a') -> NULL",
    "REGEXP_REPLACE('a', 'a', '$1') -> NULL",
    "REGEXP_SPLIT_TO_ARRAY('xaxx', 'x') -> ARRAY['', 'a', '', '']",
    "ROUND(0.49999999999999994E0) -> 0",
    "ROUND(2.5E0) -> 3",
    "ROUND(1E300) -> 9223372036854775807",
    "ROUND(-1.5E0, 0) -> -1E0",
    "ROUND(15E0, -1) -> 20E0",
    "ROUND(99.9, 0) -> 100.0",
    "ROUND(CAST(NULL AS INT)) -> NULL",
    "SIGN(0E0) -> 0",
    "SPLIT('', '') -> ARRAY['']",
    "SPLIT('ab', '') -> ARRAY['a', 'b']",
    "SPLIT('a\\Eb', '\\E') -> ARRAY['a', 'b']",
    "SPLIT('a\\b', '\\') -> ARRAY['a', 'b']",
    "SPLIT('a.b', CAST(NULL AS STRING)) -> NULL",
    "SPLIT_TO_MAP('a;b=1=2;;b=3', ';', '=') -> MAP('b' := '3')",
    "SPLIT_TO_MAP('a', ';', ';') -> NULL",
    "SUBSTRING('stream', 0) -> 'stream'",
    "SUBSTRING('stream', 3) -> 'ream'",
    "SUBSTRING('stream', -20, 2) -> 'st'",
    "SUBSTRING('stream', 9, 2) -> ''",
    "SUBSTRING('stream', 2, -1) -> ''",
    "FROM_BYTES(SUBSTRING(TO_BYTES('010203', 'hex'), -2, 1), 'hex') -> '02'",
    "TO_BYTES('xyz', 'hex') -> NULL",
    "TO_BYTES('xyz', 'rot13') -> NULL",
    "TRIM(' \t\n') -> ''",
    "TRUNC(1E300) -> 9223372036854775807",
    "UCASE(CAST(NULL AS STRING)) -> NULL",
    "UUID(TO_BYTES('00', 'hex')) -> NULL",
)
"""Edge cases that are not in the manual."""


def examples() -> Iterator[str]:
    for name in FUNCTIONS:
        for function in dict.fromkeys(overload.function for overload in FUNCTIONS.get(name)):
            if not isinstance(function, Aggregate | Tabular):
                lines = [line.strip() for line in function.doc.splitlines()]
                yield from (line.removeprefix("Example: ") for line in lines if line.startswith("Example: "))


CASES = (*examples(), *MORE)


def _value(text: str) -> object:
    try:
        return outcome(text)[0]
    except EngineError as error:
        return error


@pytest.mark.parametrize("case", CASES)
def test_example(case):
    left, right = map(_value, case.rsplit(" -> ", 1))
    if isinstance(left, float):
        assert isinstance(right, float)
        if math.isnan(right):
            assert math.isnan(left)
            return
        assert math.copysign(1, left) == math.copysign(1, right)
        assert left == pytest.approx(right, rel=1e-15, abs=0) or left == right
    else:
        assert left == right
        assert type(left) is type(right)
        assert repr(left) == repr(right)


def test_every_scalar_function_has_an_example():
    missing = [
        name
        for name in FUNCTIONS
        for overload in FUNCTIONS.get(name)
        if not isinstance(overload.function, Aggregate | Tabular) and "Example: " not in overload.function.doc
    ]
    assert missing == []
