from __future__ import annotations

import pytest
from msgspec.structs import replace

from kestrel_sql.admin.answer import Answer, Entity
from kestrel_sql.admin.answers import answer_of
from kestrel_sql.admin.shown import shown
from kestrel_sql.admin.view import EngineView, Failure, PartitionOffsets
from kestrel_sql.errors import EngineError
from kestrel_sql.session.session import Session
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
    (parsed,) = view.session.parse(f"{text};")
    answer = answer_of(parsed, view)
    assert answer is not None
    assert all(len(row) == len(answer.columns) for row in answer.rows)
    return answer


@pytest.mark.rules("L5.28")
def test_lists(view: EngineView) -> None:
    assert ask(view, "SHOW STREAMS").rows == (("S", "s", "KAFKA", "JSON", False),)
    assert ask(view, "LIST TABLES").rows == (("T", "tt", "KAFKA", "JSON", True),)
    assert ask(view, "SHOW TOPICS").rows == (("raw", 1, "1"), ("s", 1, "1"), ("tt", 1, "1"))
    assert ask(view, "SHOW TYPES").rows == (("MONEY", "DECIMAL(10, 2)"),)
    assert ask(view, "SHOW ALL TOPICS EXTENDED").rows[0] == ("raw", 1, "1", 0, 0)
    assert ("s", 1, "1", 1, 1) in ask(view, "SHOW TOPICS EXTENDED").rows
    assert ask(view, "SHOW VARIABLES").rows == (("x", "1"),)
    assert [row[:5] for row in ask(view, "SHOW QUERIES").rows] == [("CTAS_T_0", "PERSISTENT", "PAUSED", "T", "tt")]
    assert ("LPAD", "SCALAR", "STRING") in ask(view, "SHOW FUNCTIONS").rows
    assert any(row[0] == "ksql.lambdas.enabled" for row in ask(view, "SHOW PROPERTIES").rows)
    assert ("T", "Type", "TABLE") in ask(view, "SHOW TABLES EXTENDED").rows


def test_describe_shows_header_columns_and_no_pseudo_columns(view: EngineView) -> None:
    assert {row[0]: row[2] for row in ask(view, "DESCRIBE s").rows} == {"K": "(key)", "B": "(header('x'))", "V": ""}
    assert ask(view, "DESCRIBE t").rows[0] == ("K", "INTEGER", "(primary key) (Window type: TUMBLING)")


def test_describe_extended_names_the_queries(view: EngineView) -> None:
    facts = {row[1]: row[2] for row in ask(view, "DESCRIBE s EXTENDED").rows}
    assert str(facts["Query that reads it"]).startswith("CTAS_T_0 (PAUSED)")
    facts = {row[1]: row[2] for row in ask(view, "DESCRIBE t EXTENDED").rows}
    assert facts["Kafka topic"] == "tt (partitions: 1, replication: 1)"
    assert facts["Field K"] == "INTEGER (primary key) (Window type: TUMBLING)"
    assert "Query that writes it" in facts
    assert ("CTAS_T_0", "Status", "PAUSED") in ask(view, "SHOW QUERIES EXTENDED").rows


def test_why_a_query_has_failed_and_how_far_it_has_read_is_shown(view: EngineView) -> None:
    failure = Failure(message="CTAS_T_0: the record is bad", time=86_400_000, is_of_user=True)
    read = PartitionOffsets(topic="s", partition=1, start=2, end=9, committed=7)
    failed = replace(view, failed={"CTAS_T_0": failure}, offsets=lambda _: [read], paused=frozenset())
    assert ask(failed, "SHOW QUERIES").rows[0][2] == "ERROR"
    shown = {row[1]: row[2] for row in ask(failed, "DESCRIBE t EXTENDED").rows}
    assert shown["Errors"] == "CTAS_T_0: the record is bad"
    assert shown["Offsets of _confluent-ksql-default_query_CTAS_T_0"] == "s, partition 1: 7 of 2 to 9"
    explained = {row[1]: row[2] for row in ask(failed, "EXPLAIN CTAS_T_0").rows}
    assert explained["Error"] == "1970-01-02 00:00:00.000: CTAS_T_0: the record is bad (USER)"
    assert explained["Offsets"] == "s, partition 1: 7 of 9"
    assert (
        ask(replace(view, starting=frozenset({"CTAS_T_0"}), paused=frozenset()), "SHOW QUERIES").rows[0][2]
        == "STARTING"
    )


def test_describe_function(view: EngineView) -> None:
    first, second = ask(view, "DESCRIBE FUNCTION lpad").rows
    assert first[:4] == ("LPAD", "SCALAR", "LPAD(input VARCHAR, targetLen INT, padding VARCHAR)", "VARCHAR")
    assert second[3] == "BYTES"


def test_explain(view: EngineView) -> None:
    said = ask(view, "EXPLAIN CTAS_T_0").message
    assert "Processing topology\n-------------------\ntableSinkV1 T: `K` INTEGER KEY, `N` BIGINT\n  tableSel" in said
    assert '"queryId":"CTAS_T_0"' in said
    before, partitions = dict(view.session.queries), dict(view.session.partitions)
    assert "\nstreamSinkV1 U" in ask(view, "EXPLAIN CREATE STREAM u AS SELECT * FROM s").message
    assert "\nstreamSelectV1 Project" in ask(view, "EXPLAIN SELECT * FROM s EMIT CHANGES").message
    ask(view, "EXPLAIN CREATE STREAM u WITH (value_format='AVRO', partitions=9) AS SELECT * FROM s")
    assert (view.session.queries, view.session.partitions) == (before, partitions)
    assert view.session.registry.subjects() == ()
    assert "U" not in view.session.catalog.sources


def test_print(view: EngineView) -> None:
    assert ask(view, "PRINT s FROM BEGINNING").lines == (
        "Key format: KAFKA_INT or KAFKA_STRING",
        "Value format: JSON or KAFKA_STRING",
        'rowtime: 1970/01/01 00:00:00.005 Z, key: 1, value: {"V":1.50}, partition: 0',
        "rowtime: 1970/01/01 00:00:00.006 Z, key: <null>, value: 7b, partition: 0",
    )
    assert len(ask(view, "PRINT s INTERVAL 2").lines) == 3
    assert len(ask(view, "PRINT s LIMIT 0").lines) == 2
    assert "key: k, value: \\xff" in ask(view, "PRINT 'raw'").lines[-1]


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
    (parsed,) = view.session.parse("DROP STREAM s;")
    assert answer_of(parsed, view) is None


@pytest.mark.parametrize(
    ("entity", "rows", "message"),
    [
        (
            {"@type": "currentStatus", "commandStatus": {"message": "Stream created"}, "message": ""},
            (),
            "Stream created",
        ),
        ({"@type": "warning_entity", "message": "there is one"}, (), "there is one"),
        ({"@type": "terminate_query", "queryId": "q", "warnings": []}, (("queryId", "q"),), ""),
        ({"@type": "streams", "connectors": [{"a": 1}]}, (("connectors", '[{"a":1}]'),), ""),
    ],
)
def test_entities_of_other_servers_are_shown(
    entity: Entity, rows: tuple[tuple[object, ...], ...], message: str
) -> None:
    found = shown(entity)
    assert (found.rows, found.message) == (rows, message)


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
