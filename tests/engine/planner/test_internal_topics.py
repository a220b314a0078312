"""Internal topics: no statement writes, makes or deletes one."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import EngineError, PropertyError, StatementError
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.inserts import writable_source
from kestrel_sql.planner.internal_topics import is_internal
from kestrel_sql.server.commands import terminated_sinks
from kestrel_sql.session.session import Session

INTERNAL = ["__consumer_offsets", "__transaction_state", "__x", "_schemas", "_confluent-ksql-a_command_topic"]
INTERNAL += ["_confluent-ksql-b_query_CTAS_T_0-changelog", "_confluent-metrics", "connect-offsets"]


def session_over(topic: str) -> Session:
    session = Session()
    for parsed in session.parse(
        f"""CREATE STREAM i (k INT KEY, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
            CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"""
    ):
        session.execute(parsed)
    return session


@pytest.mark.rules("L6.24")
@pytest.mark.parametrize("topic", INTERNAL)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO i VALUES (1, 2);",
        "INSERT INTO i SELECT * FROM s;",
        "CREATE STREAM o WITH (KAFKA_TOPIC='{topic}') AS SELECT * FROM s;",
        "CREATE TABLE o WITH (KAFKA_TOPIC='{topic}') AS SELECT k, COUNT(*) FROM s GROUP BY k;",
        "DROP STREAM i DELETE TOPIC;",
    ],
)
def test_a_statement_that_would_write_or_delete_an_internal_topic_is_refused(topic: str, statement: str) -> None:
    session = session_over(topic)
    with pytest.raises(StatementError, match=f"The topic {topic} is internal"):
        session.execute(*session.parse(statement.format(topic=topic)))
    assert sorted(session.catalog.sources) == ["I", "S"]


@pytest.mark.rules("L6.24")
@pytest.mark.parametrize("topic", INTERNAL)
def test_an_internal_topic_is_read_and_forgotten(topic: str) -> None:
    session = session_over(topic)
    for parsed in session.parse("CREATE STREAM o AS SELECT * FROM i; DROP STREAM o; DROP STREAM i;"):
        session.execute(parsed)
    assert list(session.catalog.sources) == ["S"]


@pytest.mark.rules("L6.24")
def test_settings_of_a_server_open_all_but_the_topics_of_services() -> None:
    settings = {"ksql.readonly.topics": "secret.*, other"}
    names = ["secret1", "other", "others", "_schemas", "_confluent-ksql-a_command_topic"]
    assert [is_internal(name, settings) for name in names] == [True, True, False, False, True]
    with pytest.raises(PropertyError, match=r"ksql\.readonly\.topics"):
        is_internal("a", {"ksql.readonly.topics": "a["})
    with pytest.raises(EngineError):
        Session().execute(*Session().parse("SET 'ksql.readonly.topics'='';"))


@pytest.mark.rules("L6.24")
def test_neither_rows_of_clients_nor_the_end_of_a_service_reach_an_internal_topic() -> None:
    session = Session(config=Config.of({"ksql.readonly.topics": "none"}))
    for parsed in session_over("__x").parse(
        """CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
           CREATE STREAM o WITH (KAFKA_TOPIC='__x') AS SELECT * FROM s; CREATE STREAM p AS SELECT * FROM s;"""
    ):
        session.execute(parsed)
    found = terminated_sinks(session.catalog.sources.values(), [".*"], Config())
    assert [source.topic for source in found] == ["P"]
    with pytest.raises(StatementError, match="is internal"):
        writable_source("O", session.catalog, Config())
