"""What the API tells of queries: why they failed, and how far they have read."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from kestrel_sql.admin.entities.functions import function_entry, function_names
from kestrel_sql.admin.entities.queries import query_description
from kestrel_sql.admin.entities.sources import running_query, source_description, topic_entries
from kestrel_sql.admin.view import EngineView, Failure, PartitionOffsets
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.server.normal_form import normal_form
from kestrel_sql.session.session import Session
from kestrel_sql.topics.memory import MemoryBroker
from tests.fuzz.oracle import ABSENT, COMMAND

NAME = "CTAS_T_0"

_ASKED = COMMAND.with_name("functions.jsonl")
"""What ksqlDB's engine answered when it was asked for its functions."""


@pytest.fixture
def view() -> EngineView:
    session = Session()
    for parsed in session.parse(
        """CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
           CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"""
    ):
        session.execute(parsed)
    read = [PartitionOffsets(topic="s", partition=at, start=1, end=9, committed=at + 5) for at in range(2)]
    return EngineView(
        session=session, broker=MemoryBroker(), offsets=lambda _: read, counts={NAME: (11, 4)}, host="here:8088"
    )


@pytest.mark.rules("R5.3")
@pytest.mark.parametrize(("is_of_user", "kind"), [(True, "USER"), (False, "SYSTEM")])
def test_a_query_that_failed_says_why_and_when(view: EngineView, is_of_user: bool, kind: str) -> None:
    query = view.session.queries[NAME]
    assert query_description(query, view)["queryErrors"] == []
    failed = replace(view, failed={NAME: Failure(message="why", time=7, is_of_user=is_of_user)})
    found = query_description(query, failed)
    assert found["queryErrors"] == [{"timestamp": 7, "errorMessage": "why", "type": kind}]
    assert (found["state"], found["ksqlHostQueryStatus"]) == ("ERROR", {"here:8088": "ERROR"})
    for name in ("S", "T"):
        described = source_description(view.session.catalog.sources[name], failed, extended=True)
        assert described["errorStats"] == "why"


@pytest.mark.rules("R5.3")
def test_how_far_a_query_has_read_is_told_by_task_and_by_topic(view: EngineView) -> None:
    tasks = query_description(view.session.queries[NAME], view)["tasksMetadata"]
    assert [(each["taskId"], each["topicOffsets"][0]["committedOffset"]) for each in tasks] == [("0_0", 5), ("0_1", 6)]
    sources = view.session.catalog.sources
    (summary,) = source_description(sources["T"], view, extended=True)["queryOffsetSummaries"]
    offset = {"partition": 1, "logStartOffset": 1, "logEndOffset": 9, "consumerOffset": 6}
    assert summary["groupId"] == f"_confluent-ksql-default_query_{NAME}"
    assert (summary["topicSummaries"][0]["kafkaTopic"], summary["topicSummaries"][0]["offsets"][1]) == ("s", offset)
    assert source_description(sources["T"], view, extended=False)["queryOffsetSummaries"] == []
    constraints = [source_description(sources[name], view, extended=False)["sourceConstraints"] for name in "ST"]
    assert constraints == [["T"], []]
    assert source_description(sources["S"], view, extended=True)["statistics"] == "consumer-total-messages: 11"
    assert source_description(sources["T"], view, extended=True)["statistics"] == "total-messages: 4"


@pytest.mark.rules("R5.3")
def test_clients_count_a_query_that_starts_among_those_that_run(view: EngineView) -> None:
    found = running_query(view.session.queries[NAME], replace(view, starting=frozenset({NAME})))
    assert (found["state"], found["statusCount"]) == ("STARTING", {"RUNNING": 1})


def arguments(name: str) -> list[tuple[tuple[str, str], ...]]:
    """The names and types of each variation of a function."""
    variations = function_entry(name, FUNCTIONS)["functions"]
    return [tuple((argument["name"], argument["type"]) for argument in each["arguments"]) for each in variations]


@pytest.mark.rules("R6.3")
@pytest.mark.skipif(not _ASKED.is_file(), reason=ABSENT)
def test_arguments_have_the_names_that_they_have_in_ksqldb() -> None:
    asked: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for line in _ASKED.read_text().splitlines():
        variation = json.loads(line)
        given = tuple(
            (each["name"], each["type"][6:-1] if each["variadic"] else each["type"]) for each in variation["parameters"]
        )
        asked.setdefault(variation["name"].upper(), set()).add(given)
    # ksqlDB's TOPK has no variation for one column.
    known = [name for name in FUNCTIONS if name in asked and name != "TOPK"]
    assert len(known) > 100
    other = {name: set(arguments(name)) - asked[name] - {()} for name in known}
    assert {name: found for name, found in other.items() if found} == {}


@pytest.mark.rules("R6.3")
def test_a_function_shows_every_variation_with_named_arguments_and_a_category() -> None:
    for name in FUNCTIONS:
        written = {text for each in FUNCTIONS.get(name) for text in each.function.signatures}
        variations = function_entry(name, FUNCTIONS)["functions"]
        assert len(variations) == len(written), name
        assert all(argument["name"] for each in variations for argument in each["arguments"]), name
    assert (("str", "VARCHAR"), ("pos", "INT"), ("length", "INT")) in arguments("substring")
    assert arguments("correlation")[0] == (("val1", "INT"), ("val2", "INT"))
    assert (("val1", "T"), ("earliestN", "INT")) in arguments("earliest_by_offset")
    assert arguments("dateadd")[0][0] == ("unit", "INTERVAL UNIT")
    assert arguments("mask_left")[0][1] == ("number of characters to mask from the start", "INT")
    categories = {each["name"]: each["category"] for each in function_names(FUNCTIONS)}
    assert (categories["MAX"], categories["EXPLODE"], categories["LPAD"]) == ("AGGREGATE", "TABLE", "STRING")
    assert "" not in categories.values()


@pytest.mark.rules("L6.25")
def test_hidden_topics_are_listed_among_all_topics_only(view: EngineView) -> None:
    for topic in ("__consumer_offsets", "_schemas", "_confluent-ksql-app__command_topic", "_own", "connect-status"):
        view.broker.create(topic)  # type: ignore[attr-defined]
    every = sorted({"s", "T", *view.broker.topics})
    for hidden, names in ((False, ["T", "_own", "s"]), (True, every)):
        assert [each["name"] for each in topic_entries(view, hidden=hidden, extended=False)] == names


@pytest.mark.rules("R6.4", "R6.5")
@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (
            "create table n with (value_format='json', partitions=4) as select k, count(*) from `S` group by k;",
            (
                "CREATE TABLE N WITH (CLEANUP_POLICY='compact', KAFKA_TOPIC='N', PARTITIONS=4, REPLICAS=1, "
                "RETENTION_MS=604800000, VALUE_FORMAT='JSON') AS SELECT\n  S.K K,\n  COUNT(*) KSQL_COL_0\nFROM S S\n"
                "GROUP BY S.K\nEMIT CHANGES;"
            ),
        ),
        (
            "CREATE STREAM o AS SELECT * FROM s a WHERE v > ${least} AND 'x' <> '${word}';",
            (
                "CREATE STREAM O WITH (CLEANUP_POLICY='delete', KAFKA_TOPIC='O', PARTITIONS=2, REPLICAS=1, "
                "RETENTION_MS=604800000) AS SELECT *\nFROM S A\n"
                "WHERE ((A.V > -5) AND ('x' <> 'it''s'))\nEMIT CHANGES;"
            ),
        ),
        (
            "CREATE TABLE w AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 DAYS, RETENTION 9 DAYS) GROUP BY k;",
            (
                "CREATE TABLE W WITH (CLEANUP_POLICY='compact,delete', KAFKA_TOPIC='W', PARTITIONS=2, REPLICAS=1, "
                "RETENTION_MS=604800000) AS SELECT\n  S.K K,\n  COUNT(*) N\nFROM S S\n"
                "WINDOW TUMBLING ( SIZE 1 DAYS , RETENTION 9 DAYS ) \nGROUP BY S.K\nEMIT CHANGES;"
            ),
        ),
        (
            "CREATE STREAM j AS SELECT * FROM s JOIN t ON s.k = t.k;",
            (
                "CREATE STREAM J WITH (CLEANUP_POLICY='delete', KAFKA_TOPIC='J', PARTITIONS=2, REPLICAS=1, "
                "RETENTION_MS=604800000) AS SELECT *\nFROM S S\n"
                "INNER JOIN T T ON ((S.K = T.K))\nEMIT CHANGES;"
            ),
        ),
        (
            (
                "create or replace stream a (`k` varchar key, x ${type}, `a b` array<decimal(4,2)>, h bytes header('x'))"
                " with (value_format='delimited', kafka_topic='a', partitions='1', value_delimiter='|');"
            ),
            (
                "CREATE OR REPLACE STREAM A (`k` STRING KEY, X STRUCT<A INTEGER>, `a b` ARRAY<DECIMAL(4, 2)>, "
                "H BYTES HEADER('x')) WITH (CLEANUP_POLICY='delete', KAFKA_TOPIC='a', KEY_FORMAT='KAFKA', PARTITIONS='1',"
                " VALUE_DELIMITER='|', VALUE_FORMAT='DELIMITED');"
            ),
        ),
        (
            "CREATE SOURCE TABLE a (k int primary key, v int) WITH (kafka_topic='s', format='json');",
            (
                "CREATE SOURCE TABLE A (K INTEGER PRIMARY KEY, V INTEGER) "
                "WITH (CLEANUP_POLICY='compact', FORMAT='json', KAFKA_TOPIC='s');"
            ),
        ),
        (
            "CREATE STREAM IF NOT EXISTS s (k int key) WITH (kafka_topic='s', value_format='json');",
            "CREATE STREAM IF NOT EXISTS s (k int key) WITH (kafka_topic='s', value_format='json');",
        ),
        (
            "CREATE STREAM n (k unknown key) WITH (kafka_topic='s', value_format='json');",
            "CREATE STREAM n (k unknown key) WITH (kafka_topic='s', value_format='json');",
        ),
        ("drop stream if exists `S` delete topic;", "DROP STREAM IF EXISTS S;"),
        ("drop  stream s;", "drop  stream s;"),
        ("INSERT INTO s  SELECT k, ${least} AS v FROM s;", "INSERT INTO s  SELECT k,  -5 AS v FROM s;"),
        ("CREATE STREAM o AS SELECT nothing FROM s;", "CREATE STREAM o AS SELECT nothing FROM s;"),
    ],
)
def test_the_text_of_a_statement_has_its_normal_form(view: EngineView, text: str, normal: str) -> None:
    view.session.variables.update(least="-5", word="it's", type="ty")
    (declared,) = view.session.parse("CREATE TYPE ty AS STRUCT<a INT>;")
    view.session.execute(declared)
    view.broker.create("s", 2)  # type: ignore[attr-defined]
    (parsed,) = view.session.parse(text)
    found = normal_form(parsed, view)
    assert found.text == normal
    (again,) = Session().parse(found.text)
    assert normal_form(replace(parsed, statement=again.statement), view).text in (normal, text)
    assert found.statement == parsed.statement


@pytest.mark.rules("R6.4")
@pytest.mark.parametrize(
    ("properties", "select", "kept"),
    [
        ("", "* FROM s", 604_800_000),
        ("", "* FROM short", 100_000),
        ("", "* FROM shorter", 5_000),
        ("", "* FROM forever", -1),
        ("WITH (retention_ms=7)", "* FROM short", 7),
        ("", "k, COUNT(*) FROM short GROUP BY k", 100_000),
        ("", "k, COUNT(*) FROM short WINDOW SESSION (1 HOUR, RETENTION 30 DAYS) GROUP BY k", 100_000),
        ("WITH (retention_ms=7)", "k, COUNT(*) FROM short WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k", 7),
    ],
)
def test_the_normal_form_has_the_retention_that_is_given_or_that_of_the_source(
    properties: str, select: str, kept: int
) -> None:
    engine = ServedEngine(Session(), topics=TopicRule.BROKER)
    made = "CREATE STREAM {0} (k INT KEY, v INT) WITH (kafka_topic='{0}', value_format='JSON', partitions=1{1});"
    ways = {"s": "", "short": ", retention_ms=100000", "forever": ", retention_ms=-1"}
    texts = [made.format(name, more) for name, more in ways.items()]
    for text in (*texts, "CREATE STREAM shorter WITH (retention_ms=5000) AS SELECT * FROM s;"):
        engine.execute(*engine.session.parse(text))
    kind = "TABLE" if "GROUP" in select else "STREAM"
    (parsed,) = engine.session.parse(f"CREATE {kind} x {properties} AS SELECT {select};")
    assert f"RETENTION_MS={kept})" in normal_form(parsed, engine.view()).text
