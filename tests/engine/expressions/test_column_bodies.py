"""Column bodies give what the values give, decide where they should, and leave the rest to the values.

`python -m tests.fuzz expressions` compares both over edge values for all overloads.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kestrel_sql.arrow.columns import to_array, to_list
from kestrel_sql.expressions.columns import LEAST_ROWS, Columns, Failures
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.expressions.sendable import Compiled
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import parts
from kestrel_sql.functions.declaration import Scalar
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.parse.parser import parse_columns, parse_expression
from kestrel_sql.types.own_scales import with_own_scales
from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import STRING

SCOPE = {
    column.name: column.type
    for column in parse_columns(
        "ID BIGINT, N INT, X DOUBLE, PRICE DECIMAL(10, 2), ACTIVE BOOLEAN, NAME STRING, NICK STRING, EMAIL STRING,"
        " DIGITS STRING, DOC STRING, TAKEN STRING, BORN STRING, SEEN TIMESTAMP, DAY DATE, TAGS ARRAY<STRING>,"
        " NUMS ARRAY<INT>, ATTRS MAP<STRING, STRING>,"
        " ADDRESS STRUCT<STREET STRING, CITY STRING, GEO STRUCT<LAT DOUBLE, LON DOUBLE>>"
    )
}
Row = Mapping[str, Any]
ROWS = 300


def usual(rng: random.Random) -> Row:
    """A row as most records have it."""
    number = rng.randrange(-(10**6), 10**6)
    return {
        "ID": number * 10**6,
        "N": number,
        "X": number / 7,
        "PRICE": Decimal(number).scaleb(-2),
        "ACTIVE": number % 3 == 0,
        "NAME": f" Name {number} x5 ",
        "NICK": f"nick-{number % 100}" if number % 4 else None,
        "EMAIL": f"User{number}@example.com",
        "DIGITS": f"{abs(number):06d}",
        "DOC": f'{{"user": "u{number}"}}',
        "TAKEN": f"20{rng.randrange(100):02d}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d} 23:59:{number % 60:02d}",
        "BORN": f"{rng.randrange(1600, 3000)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
        "SEEN": (number % 600_000 - 300_000) * 86_399_123,
        "DAY": number % 500_000 - 100_000,
        "TAGS": [f"tag{number % each}" for each in range(1, rng.randrange(2, 6))],
        "NUMS": [rng.randrange(5) for _ in range(rng.randrange(2, 6))],
        "ATTRS": {"a": f"v{number}", "b": "x1"} if number % 2 else {"a": "y", "c": "z1", "d": "1"},
        "ADDRESS": {"STREET": "s", "CITY": f"City {number}", "GEO": {"LAT": number / 3, "LON": None}},
    }


DECIDED = """
    CAST(N AS BIGINT); CAST(N AS DOUBLE); CAST(ID AS STRING); CAST(ID AS INT); CAST(ID AS DOUBLE)
    CAST(N AS DECIMAL(10, 2)); CAST(PRICE AS DOUBLE); CAST(PRICE AS STRING); CAST(PRICE AS DECIMAL(12, 1))
    CAST(PRICE AS DECIMAL(12, 3)); CAST(ACTIVE AS STRING); CAST(DIGITS AS INT); CAST(DIGITS AS BIGINT)
    CAST(DIGITS AS DOUBLE); CAST(DIGITS AS DECIMAL(10, 2)); CAST(BORN AS DATE)
    CAST(REPLACE(TAKEN, ' ', 'T') AS TIMESTAMP); CONCAT(NAME, '-', NICK); CONCAT_WS('|', NAME, EMAIL); NAME + NICK
    TRIM(NAME); UCASE(NAME); LCASE(EMAIL); LEN(NAME); LPAD(DIGITS, 12, '0'); RPAD(DIGITS, 12, '-')
    REPLACE(NICK, 'nick', 'the nick'); SUBSTRING(NAME, 2, 3); SUBSTRING(NAME, 0, 3); SUBSTRING(EMAIL, 3)
    SUBSTRING(NICK, -4); SUBSTRING(NICK, -400); SPLIT(EMAIL, '@'); SPLIT(EMAIL, '@')[2]; SPLIT(EMAIL, '@')[-1]
    INSTR(NICK, '-'); INSTR(EMAIL, 'x'); PRICE + PRICE; PRICE * 2; PRICE * PRICE; PRICE - CAST(1.25 AS DECIMAL(4, 3))
    PRICE > CAST(50 AS DECIMAL(4, 2)); PRICE = N; CAST(PRICE * 0.19 AS DECIMAL(12, 2)); ABS(PRICE); ABS(N); ABS(X)
    N + 1; N * 3 - ID; N * N; ID * ID; N % 7; ID % N; -N; -X; X * 1.8e0 + N; X / 3e0; X / 0e0; X % 3e0; SQRT(X)
    LN(X); LOG(X); LN(ID); SIN(X); COS(X); TAN(X); EXP(X / 1000e0); POWER(X, 2); POWER(X, -0.5e0); POWER(N, 1); SIGN(X)
    SIGN(N); FLOOR(X); CEIL(X); FLOOR(N); CEIL(N); FORMAT_TIMESTAMP(SEEN, 'yyyy-MM-dd HH:mm:ss.SSS')
    FORMAT_TIMESTAMP(SEEN, 'yyyyMM'); FORMAT_TIMESTAMP(SEEN, 'dd', '+05:30'); TIMESTAMPTOSTRING(ID, 'HH:mm')
    FORMAT_DATE(DAY, 'dd.MM.yyyy'); DATETOSTRING(N % 1000, 'yyyy'); PARSE_TIMESTAMP(TAKEN, 'yyyy-MM-dd HH:mm:ss')
    PARSE_TIMESTAMP(TAKEN, 'yyyy-MM-dd HH:mm:ss', '-03:00'); STRINGTOTIMESTAMP(TAKEN, 'yyyy-MM-dd HH:mm:ss')
    PARSE_DATE(BORN, 'yyyy-MM-dd'); TIMESTAMPADD(HOURS, 2, SEEN)
    TIMESTAMPSUB(DAYS, 1, SEEN); DATEADD(DAYS, 30, DAY); DATESUB(HOURS, 48, DAY); UNIX_TIMESTAMP(SEEN)
    FROM_UNIXTIME(ID); SEEN > FROM_UNIXTIME(1700000000000); REGEXP_REPLACE(NAME, '[0-9]+', '#')
    REGEXP_REPLACE(EMAIL, '@.*', ''); REGEXP_REPLACE(DIGITS, '^0+', ''); REGEXP_EXTRACT('[0-9]+', NAME)
    REGEXP_EXTRACT('([^@]+)@(.+)', EMAIL, 2); REGEXP_EXTRACT('(ick)-(1)', NICK, 1); REGEXP_EXTRACT_ALL('[0-9]', NICK)
    REGEXP_SPLIT_TO_ARRAY(EMAIL, '[@.]'); NAME LIKE ' N%'; EMAIL LIKE '%5%'; EMAIL LIKE '%@example.com'
    NICK IS NULL OR NAME NOT LIKE '%x_'; NAME LIKE ' Name 1_'; N > 100 AND ACTIVE; N > 900 OR X < 10e0; NOT ACTIVE
    N BETWEEN 100 AND 2000; N IN (1, 5, 7); NICK IN ('nick-1', 'nick-2'); NAME = ' Name 5 x5 '; NAME < EMAIL; NICK <> 'x'
    CASE WHEN N > 500 THEN 'high' WHEN N > 100 THEN NICK ELSE 'low' END; CASE WHEN ACTIVE THEN PRICE END
    COALESCE(NICK, NAME); IFNULL(NICK, 'none'); NULLIF(N, 5); NULLIF(NICK, 'nick-1'); AS_VALUE(NICK)
    ADDRESS->CITY; ADDRESS->GEO->LON; UCASE(ADDRESS->CITY); STRUCT(A := NAME, B := STRUCT(N := N)); ARRAY[NICK, 'x', NAME]
    MAP('name' := NAME, 'b' := NICK, 'name' := 'x'); ATTRS['a']; ATTRS['c']; ATTRS['none']; TAGS[1]; TAGS[4]; TAGS[-1]
    ARRAY_CONTAINS(TAGS, 'tag1'); ARRAY_LENGTH(TAGS); ARRAY_JOIN(TAGS, ','); ARRAY_JOIN(TAGS); ARRAY_MAX(NUMS)
    ARRAY_MIN(NUMS); ARRAY_DISTINCT(NUMS); ARRAY_DISTINCT(TAGS); SLICE(NUMS, 1, 2); SLICE(TAGS, 2, 4)
    ARRAY_CONCAT(NUMS, NUMS); TRANSFORM(NUMS, V => V + N); FILTER(NUMS, V => V > 3); REDUCE(NUMS, 0, (S, V) => S + V)
    REDUCE(NUMS, ID, (S, V) => S * 2 + V + N); TRANSFORM(TAGS, T => UCASE(T)); TRANSFORM(TAGS, T => MASK(T))
    TRANSFORM(TAGS, T => TRANSFORM(NUMS, V => V + LEN(T))); TRANSFORM(NUMS, V => 1)
    TRANSFORM(ATTRS, (K, V) => UCASE(K), (K, V) => V); TRANSFORM(ATTRS, (K, V) => V, (K, V) => K)
    FILTER(ATTRS, (K, V) => K = 'a'); FILTER(ATTRS, (K, V) => V LIKE '%1%')
"""
TEXTS = [each for line in DECIDED.splitlines() for text in line.split("; ") if (each := text.strip())]


def over_columns(text: str, rows: Sequence[Row]) -> pa.Array | None:
    bound = bind(parse_expression(text), SCOPE)
    arrays = {name: to_array([row[name] for row in rows], Column(name, of, Role.VALUE)) for name, of in SCOPE.items()}
    columns = Columns({}, len(rows), arrays=arrays.get)
    return Compiled(bound, Options(nested=True)).arrays(columns, with_own_scales(bound.type or STRING, False))


def over_values(text: str, rows: Sequence[Row]) -> tuple[list[Any], Failures]:
    failures: Failures = {}
    columns = Columns({name: [row[name] for row in rows] for name in SCOPE}, len(rows))
    return Compiled(bind(parse_expression(text), SCOPE), Options(nested=True))(columns, failures), failures


@pytest.mark.parametrize("text", TEXTS)
def test_a_column_body_gives_what_the_values_give(text: str) -> None:
    rng = random.Random(text)
    rows = [usual(rng) for _ in range(ROWS)]
    found = over_columns(text, rows)
    assert found is not None
    found.validate(full=True)
    values, failures = over_values(text, rows)
    assert not failures
    assert repr(to_list(found)) == repr(values)
    middle = over_columns(text, rows[100:200])
    assert middle is not None
    assert repr(to_list(middle)) == repr(values[100:200])


def test_a_column_body_over_a_slice_sees_its_rows_only() -> None:
    rng = random.Random(1)
    rows = [usual(rng) for _ in range(ROWS)]
    arrays = {
        n: to_array([row[n] for row in rows], Column(n, of, Role.VALUE)).slice(50, 200) for n, of in SCOPE.items()
    }
    for text in TEXTS:
        bound = bind(parse_expression(text), SCOPE)
        columns = Columns({}, 200, arrays=arrays.get)
        found = Compiled(bound, Options(nested=True)).arrays(columns, with_own_scales(bound.type or STRING, False))
        assert found is not None, text
        assert repr(to_list(found)) == repr(over_values(text, rows[50:250])[0]), text


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("CAST(DIGITS AS INT)", {"DIGITS": "x"}),
        ("CAST(DIGITS AS INT)", {"DIGITS": "99999999999"}),
        ("CAST(N AS DECIMAL(3, 2))", {}),
        ("PRICE + CAST(NICK AS DECIMAL(4, 2))", {"NICK": None}),
        ("N + CAST(DIGITS AS INT)", {"N": None}),
        ("N % 0", {}),
        ("N > 5 AND ACTIVE", {"ACTIVE": None}),
        ("UCASE(NAME)", {"NAME": "stra\u00dfe"}),
        ("LEN(NAME)", {"NAME": "\U0001f600"}),
        ("TRIM(NAME)", {"NAME": "\tx"}),
        ("NAME LIKE 'a%'", {"NAME": "a\nb"}),
        ("NAME < EMAIL", {"NAME": "\uffff"}),
        ("PARSE_DATE(BORN, 'yyyy-MM-dd')", {"BORN": "2021-02-29"}),
        ("PARSE_TIMESTAMP(TAKEN, 'yyyy-MM-dd HH:mm:ss')", {"TAKEN": "2021-02-28 24:00:00"}),
        ("FORMAT_TIMESTAMP(SEEN, 'yyyy-MM-dd')", {"SEEN": 2**62}),
        ("DATEADD(DAYS, 1, DAY)", {"DAY": 2**31 - 1}),
        ("CASE WHEN ACTIVE THEN 1 ELSE 2 END", {"ACTIVE": None}),
        ("TRANSFORM(ATTRS, (K, V) => 'same', (K, V) => V)", {}),
        ("TRANSFORM(ATTRS, (K, V) => K, (K, V) => V)", {"ATTRS": {"a": None}}),
        ("FILTER(NUMS, V => ACTIVE OR V > 3)", {"ACTIVE": None}),
        ("FILTER(NUMS, V => CEIL(PRICE) > V)", {}),
        ("SLICE(NUMS, 5, 1)", {}),
        ("REGEXP_REPLACE(NAME, '(a|ab)(c|bcd)', '#')", {}),
        ("REGEXP_REPLACE(NAME, 'x*', '#')", {}),
        ("REGEXP_REPLACE(NAME, 'a', '$')", {}),
    ],
)
def test_a_column_body_leaves_what_could_differ_to_the_values(text: str, changes: Row) -> None:
    rng = random.Random(text)
    rows = [usual(rng) for _ in range(ROWS)]
    assert over_columns(text, [*rows, {**rows[0], **changes}]) is None


def test_every_column_body_decides_somewhere() -> None:
    calls = [part.function for text in TEXTS for part in parts(bind(parse_expression(text), SCOPE))]
    seen = {id(function) for function in calls}
    declared = {
        id(overload.function): name
        for name, overloads in FUNCTIONS.overloads.items()
        for overload in overloads
        if isinstance(overload.function, Scalar) and overload.function.columns is not None
    }
    assert len(declared) > 40
    assert {name for key, name in declared.items() if key not in seen} == set()


def test_few_rows_are_computed_by_values() -> None:
    rng = random.Random(1)
    assert over_columns("UCASE(NAME)", [usual(rng) for _ in range(LEAST_ROWS - 1)]) is None
