"""Statements as ksqlDB rewrites them, compared with the texts in its stored plans."""

from __future__ import annotations

import pytest

from kestrel_qtt.ksqldb.rewritten_query import rewritten_text
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.session.session import Session

SOURCES = """
CREATE STREAM S (ID INT KEY, A INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
CREATE STREAM R (ID INT KEY, A INT) WITH (KAFKA_TOPIC='r', FORMAT='JSON');
"""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("CREATE STREAM O AS SELECT * FROM S;", "CREATE STREAM O AS SELECT *\nFROM S S\nEMIT CHANGES"),
        (
            (
                "create table o with (value_format='JSON', kafka_topic='o') as select a, count(*), "
                "id + 1 as n from s group by a, id;"
            ),
            (
                "CREATE TABLE O WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON') AS SELECT\n  S.A "
                "A,\n  COUNT(*) KSQL_COL_0,\n  (S.ID + 1) N\n"
                "FROM S S\nGROUP BY S.A, S.ID\nEMIT CHANGES"
            ),
        ),
        ("CREATE STREAM O AS SELECT MISSING FROM S;", "CREATE STREAM O AS SELECT MISSING\nFROM S S"),
        ("DROP STREAM S;", "DROP STREAM S"),
    ],
)
def test_a_statement_is_rewritten(written: str, expected: str) -> None:
    session = Session()
    *sources, statement = session.parse(SOURCES + written)
    for parsed in sources:
        session.execute(parsed)
    assert rewritten_text(statement.statement, session.catalog, Types(session.functions, session.config)) == expected
