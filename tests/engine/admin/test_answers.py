from __future__ import annotations

from dataclasses import replace

import pytest

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.answers import answer_of
from kestrel_sql.admin.view import EngineView, Failure, PartitionOffsets
from kestrel_sql.errors import EngineError
from kestrel_sql.session.session import Session
from kestrel_sql.sql.parse.parser import parse_statement
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import Record

SETUP = """
CREATE TYPE money AS DECIMAL(10, 2);
CREATE STREAM s (k INT KEY, b BYTES HEADER('x'), v money) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t WITH (kafka_topic='tt') AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
"""


@pytest.fixture(scope="module")
def view() -> EngineView:
    session, broker = Session(), MemoryBroker()
    for parsed in session.parse(SETUP):
        session.execute(parsed)
    session.variables["x"] = "1"
    broker.create("tt")
    broker.produce(Record(topic="s", key=b"\0\0\0\1", value=b'{"V": 1.50}', timestamp=5))
    broker.produce(Record(topic="s", key=None, value=b"{", timestamp=6))
    broker.produce(Record(topic="raw", key=b"k", value=b"\xff", timestamp=7))
    return EngineView(session=session, broker=broker, paused=frozenset({"CTAS_T_0"}))


def ask(view: EngineView, text: str) -> Answer:
    answer = answer_of(parse_statement(text), view)
    assert answer is not None
    assert all(len(row) == len(answer.columns) for row in answer.rows)
    return answer


@pytest.mark.rules("L5.28")
def test_lists(view: EngineView) -> None:
    assert ask(view, "SHOW STREAMS").rows == (("S", "s", "KAFKA", "JSON", False),)
    assert ask(view, "LIST TABLES").rows == (("T", "tt", "KAFKA", "JSON", True),)
    assert ask(view, "SHOW TOPICS").rows == (("raw", 1, 1, 1), ("s", 1, 1, 2), ("tt", 1, 1, 0))
    assert ask(view, "SHOW TYPES").rows == (("MONEY", "DECIMAL(10, 2)"),)
    assert ask(view, "SHOW VARIABLES").rows == (("x", "1"),)
    assert [row[:5] for row in ask(view, "SHOW QUERIES").rows] == [("CTAS_T_0", "PERSISTENT", "PAUSED", "T", "tt")]
    assert ("LPAD", "SCALAR") in {row[:2] for row in ask(view, "SHOW FUNCTIONS").rows}
    assert any(row[0] == "ksql.lambdas.enabled" for row in ask(view, "SHOW PROPERTIES").rows)
    assert ("T", "Type", "TABLE") in ask(view, "SHOW TABLES EXTENDED").rows


def test_describe_shows_header_columns_and_no_pseudo_columns(view: EngineView) -> None:
    assert {row[0]: row[2] for row in ask(view, "DESCRIBE s").rows} == {"K": "(key)", "B": "(header('x'))", "V": ""}
    assert ask(view, "DESCRIBE t").rows[0] == ("K", "INTEGER", "(primary key) (Window type: TUMBLING)")


def test_describe_extended_names_the_queries(view: EngineView) -> None:
    facts = {row[1]: row[2] for row in ask(view, "DESCRIBE s EXTENDED").rows}
    assert str(facts["Query that reads it"]).startswith("CTAS_T_0 (PAUSED)")
    facts = {row[1]: row[2] for row in ask(view, "DESCRIBE t EXTENDED").rows}
    assert facts["Window"] == "TUMBLING of 1000 ms"
    assert "Query that writes it" in facts


def test_why_a_query_has_failed_and_how_far_it_has_read_is_shown(view: EngineView) -> None:
    failure = Failure(message="CTAS_T_0: the record is bad", time=86_400_000, is_of_user=True)
    read = PartitionOffsets(topic="s", partition=1, start=2, end=9, committed=7)
    failed = replace(view, failed={"CTAS_T_0": failure}, offsets=lambda _: [read], paused=frozenset())
    assert ask(failed, "SHOW QUERIES").rows[0][2] == "ERROR"
    shown = {row[1]: row[2] for row in ask(failed, "DESCRIBE t EXTENDED").rows}
    assert shown["Error of CTAS_T_0"] == "1970-01-02 00:00:00.000: CTAS_T_0: the record is bad"
    assert shown["Offsets of CTAS_T_0"] == "s, partition 1: 7 of 2 to 9"
    said = ask(failed, "EXPLAIN CTAS_T_0").message
    assert said.startswith("CTAS_T_0 has failed at 1970-01-02 00:00:00.000: CTAS_T_0: the record is bad\n{")
    assert (
        ask(replace(view, starting=frozenset({"CTAS_T_0"}), paused=frozenset()), "SHOW QUERIES").rows[0][2]
        == "STARTING"
    )


def test_describe_function(view: EngineView) -> None:
    assert len(ask(view, "DESCRIBE FUNCTION lpad").rows) == 2


def test_explain(view: EngineView) -> None:
    answer = ask(view, "EXPLAIN CTAS_T_0")
    assert [row[1] for row in answer.rows][:2] == ["tableSinkV1", "tableSelectV1"]
    assert '"queryId": "CTAS_T_0"' in answer.message
    before = dict(view.session.queries)
    assert ask(view, "EXPLAIN CREATE STREAM u AS SELECT * FROM s").rows[0][1] == "streamSinkV1"
    assert ask(view, "EXPLAIN SELECT * FROM s EMIT CHANGES").rows[0][1] == "streamSelectV1"
    assert view.session.queries == before
    assert "U" not in view.session.catalog.sources


def test_print(view: EngineView) -> None:
    answer = ask(view, "PRINT s FROM BEGINNING")
    assert answer.rows[0] == (5, 0, 0, "1", '{"V":1.50}')
    assert answer.rows[1][3:] == ("<null>", "7b")
    assert len(ask(view, "PRINT s INTERVAL 2").rows) == 1
    assert len(ask(view, "PRINT s LIMIT 0").rows) == 0
    assert ask(view, "PRINT 'raw'").rows[0][3:] == ("k", "\\xff")


def test_assertions_that_hold(view: EngineView) -> None:
    assert ask(view, "ASSERT TOPIC s WITH (PARTITIONS=1)").message == "Topic s exists."
    assert ask(view, "ASSERT NOT EXISTS TOPIC nothing").message == "Topic nothing does not exist."
    assert ask(view, "ASSERT NOT EXISTS SCHEMA SUBJECT 's-value'").message


@pytest.mark.parametrize(
    "text",
    [
        "ASSERT TOPIC nothing",
        "ASSERT NOT EXISTS TOPIC s",
        "ASSERT TOPIC s WITH (PARTITIONS=3)",
        "ASSERT TOPIC s WITH (COLOUR=3)",
        "ASSERT SCHEMA SUBJECT 's-value'",
        "ASSERT SCHEMA ID 7",
        "DESCRIBE nothing",
        "DESCRIBE FUNCTION nothing",
        "DESCRIBE CONNECTOR c",
        "SHOW CONNECTORS",
        "EXPLAIN nothing",
        "EXPLAIN SHOW STREAMS",
        "PRINT nothing",
        "DROP CONNECTOR c",
    ],
)
def test_refused(view: EngineView, text: str) -> None:
    with pytest.raises(EngineError):
        ask(view, text)


def test_other_statements_have_no_answer(view: EngineView) -> None:
    assert answer_of(parse_statement("DROP STREAM s"), view) is None


def test_an_assertion_waits_until_its_timeout(view: EngineView) -> None:
    looks = []

    def wait() -> None:
        looks.append(len(looks))
        if len(looks) == 3:
            view.broker.create("late")

    waiting = replace(view, wait=wait)
    assert ask(waiting, "ASSERT TOPIC late TIMEOUT 1 MINUTE").message == "Topic late exists."
    assert len(looks) == 3
    with pytest.raises(EngineError, match="Topic never does not exist"):
        ask(waiting, "ASSERT TOPIC never TIMEOUT 0 SECONDS")
    with pytest.raises(EngineError, match="partitions, expected 7 got 1\nCannot assert unknown topic property: COLOUR"):
        ask(waiting, "ASSERT TOPIC late WITH (PARTITIONS=7, COLOUR=3) TIMEOUT 1 MINUTE")
    assert len(looks) == 3
