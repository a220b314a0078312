"""Refused statements name columns and calls as they are written, never as their plans do (rule E10.9)."""

from __future__ import annotations

import re

import pytest

from kestrel_sql.errors import EngineError
from tests.engine.planner.planning import plan

SOURCES = """
CREATE STREAM TRIPS (BOAT STRING KEY, GUESTS INT, STOPS ARRAY<INT>, S STRUCT<A INT>, M MAP<STRING, INT>)
    WITH (kafka_topic='trips', value_format='JSON');
CREATE TABLE BOATS (BOAT STRING PRIMARY KEY, NAME STRING, BEDS INT) WITH (kafka_topic='boats', value_format='JSON');
"""
JOIN = "FROM TRIPS T JOIN BOATS B ON T.BOAT = B.BOAT"
INTERNAL = re.compile(r"KSQL_|\b[TB]_[A-Z]+\b")

EXPRESSIONS = (
    *("GUESTS > NAME", "GUESTS + NAME > 1", "NAME LIKE GUESTS", "GUESTS BETWEEN 'a' AND NAME", "GUESTS IN ('x')"),
    *("NOT GUESTS", "GUESTS", "UCASE(GUESTS) = 'x'", "S->B = 1", "STOPS['a'] = 1", "-NAME = 1", "GUESTS->A = 1"),
    *("CASE WHEN NAME THEN 1 ELSE 2 END = 1", "CAST(STOPS AS INT) = 1", "TRANSFORM(STOPS, X => X + NAME) = STOPS"),
    *("ARRAY[GUESTS, NAME] = STOPS", "MAP(NAME := GUESTS, 'x' := 'a') = M", "EXPLODE(STOPS) > 'x'"),
)
STATEMENTS = (
    "CREATE STREAM X AS SELECT T.BOAT, 1 AS Y {join} WHERE {bad};",
    "CREATE STREAM X AS SELECT T.BOAT, ({bad}) + 'x' AS Y {join};",
    "CREATE STREAM X AS SELECT T.BOAT, EXPLODE(STOPS) + ({bad}) + 'x' AS Y {join};",
    "CREATE STREAM X AS SELECT T.BOAT, ({bad})->* {join};",
    "CREATE STREAM X AS SELECT T.BOAT, 1 AS Y {join} PARTITION BY ({bad}) + 'x';",
    "CREATE TABLE X AS SELECT T.BOAT, COUNT(*) AS Y {join} GROUP BY ({bad}) + 'x';",
    "CREATE TABLE X AS SELECT T.BOAT, SUM({bad}) + 'x' AS Y {join} GROUP BY T.BOAT;",
    "CREATE TABLE X AS SELECT T.BOAT, SUM(GUESTS + BEDS) AS Y {join} GROUP BY T.BOAT HAVING COUNT({bad}) > 'x';",
    "SELECT BOAT, EXPLODE(STOPS) + ({bad}) + 'x' AS Y FROM TRIPS EMIT CHANGES;",
)


@pytest.mark.rules("E10.9")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_message_has_a_name_of_the_plan(statement: str) -> None:
    for bad in EXPRESSIONS:
        with pytest.raises(EngineError) as error:
            plan(SOURCES + statement.format(bad=bad, join=JOIN))
        assert not INTERNAL.search(error.value.message), bad
        assert not INTERNAL.search(error.value.hint or ""), bad
