"""The ids of queries that answer a client."""

from __future__ import annotations

import pytest

from kestrel_sql.planner.config import Config
from kestrel_sql.server.serving.queries import transient_id
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query

SETUP = """
    CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
    CREATE STREAM o AS SELECT * FROM s;
"""


@pytest.mark.parametrize(
    ("text", "properties", "prefix"),
    [
        ("SELECT * FROM s;", {}, "query_"),
        ("SELECT * FROM o EMIT CHANGES;", {}, "transient_O_7"),
        ("SELECT * FROM o EMIT CHANGES;", {"ksql.query.push.v2.enabled": True}, "SCALABLE_PUSH_QUERY_"),
        ("SELECT * FROM s EMIT CHANGES;", {"ksql.query.push.v2.enabled": True}, "transient_S_7"),
        ("SELECT v, rowoffset FROM o EMIT CHANGES;", {"ksql.query.push.v2.enabled": True}, "transient_O_7"),
        ("SELECT v, COUNT(*) FROM o GROUP BY v EMIT CHANGES;", {"ksql.query.push.v2.enabled": True}, "transient_O_7"),
        (
            "SELECT * FROM o EMIT CHANGES;",
            {"ksql.query.push.v2.enabled": True, "auto.offset.reset": "earliest"},
            "transient_O_7",
        ),
    ],
)
def test_the_id_says_how_ksqldb_would_run_a_query(text: str, properties: dict[str, object], prefix: str) -> None:
    session = Session()
    for parsed in session.parse(SETUP):
        session.execute(parsed)
    statement = session.parse(text)[0].statement
    assert isinstance(statement, Query)
    assert transient_id(statement, Config.of(properties), session, 7).startswith(prefix)
