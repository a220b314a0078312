"""`/ksql` and the small endpoints, by raw HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.planner.query import plan_create_as
from kestrel_sql.server.open import Running
from kestrel_sql.sql.nodes.statements import CreateAs
from tests.engine.server.servers import http, ksql, sparkless_server

ORDERS = (
    "CREATE STREAM {0} (id INT KEY, item STRING, price DECIMAL(6, 2)) WITH (KAFKA_TOPIC='{0}', VALUE_FORMAT='JSON',"
    " PARTITIONS=1);"
)


@pytest.fixture(scope="module")
def url(idle: Running) -> str:
    assert ksql(idle.url, ORDERS.format("orders")).status_code == 200
    return idle.url


@pytest.mark.rules("R7.1", "R7.2", "R7.3")
def test_a_command_answers_its_id_status_and_sequence(url: str) -> None:
    (entity,) = ksql(url, ORDERS.format("first")).json()
    assert entity["@type"] == "currentStatus"
    assert entity["commandId"] == "stream/`FIRST`/create"
    assert entity["commandStatus"] == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    status = http.get(f"{url}/status/stream/%60FIRST%60/create")
    assert status.json() == entity["commandStatus"]
    assert http.get(f"{url}/status").json()["commandStatuses"]["stream/`FIRST`/create"] == "SUCCESS"
    (after,) = ksql(url, "LIST TYPES;", commandSequenceNumber=entity["commandSequenceNumber"]).json()
    assert after["@type"] == "type_list"


@pytest.mark.rules("R5.1", "R4.1")
def test_a_body_that_is_refused_in_its_middle_changes_nothing(url: str) -> None:
    answer = ksql(url, ORDERS.format("before") + "CREATE STREAM bad AS SELECT nothing FROM before;")
    assert answer.status_code == 400
    error = answer.json()
    assert (error["@type"], error["error_code"], error["entities"]) == ("statement_error", 40001, [])
    assert error["statementText"] == "CREATE STREAM bad AS SELECT nothing FROM before;"
    assert "NOTHING" in error["message"]
    (streams,) = ksql(url, "LIST STREAMS;").json()
    assert "BEFORE" not in {each["name"] for each in streams["streams"]}


@pytest.mark.rules("R4.1")
@pytest.mark.parametrize(
    "text", ["SELECT * FROM orders EMIT CHANGES;", "LIST TOPICS; SELECT * FROM orders;", "PRINT orders;"]
)
def test_queries_have_an_endpoint_of_their_own(url: str, text: str) -> None:
    answer = ksql(url, text)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)


@pytest.mark.rules("R5.3")
@pytest.mark.parametrize(
    ("text", "kind", "member"),
    [
        ("LIST STREAMS;", "streams", "streams"),
        ("LIST TABLES;", "tables", "tables"),
        ("LIST STREAMS EXTENDED;", "source_descriptions", "sourceDescriptions"),
        ("LIST TOPICS;", "kafka_topics", "topics"),
        ("LIST ALL TOPICS EXTENDED;", "kafka_topics_extended", "topics"),
        ("LIST QUERIES;", "queries", "queries"),
        ("LIST QUERIES EXTENDED;", "query_descriptions", "queryDescriptions"),
        ("LIST PROPERTIES;", "properties", "properties"),
        ("LIST FUNCTIONS;", "function_names", "functions"),
        ("DESCRIBE FUNCTION substring;", "describe_function", "functions"),
        ("LIST TYPES;", "type_list", "types"),
        ("LIST VARIABLES;", "variables", "variables"),
        ("DESCRIBE orders;", "sourceDescription", "sourceDescription"),
        ("EXPLAIN SELECT * FROM orders EMIT CHANGES;", "queryDescription", "queryDescription"),
        ("ASSERT TOPIC orders;", "assert_topic", "topicName"),
        ("ASSERT NOT EXISTS SCHEMA SUBJECT 'none';", "assert_schema", "subject"),
    ],
)
def test_a_statement_that_asks_answers_one_entity(url: str, text: str, kind: str, member: str) -> None:
    (entity,) = ksql(url, text).json()
    assert entity["@type"] == kind
    assert entity["statementText"] == text
    assert member in entity
    assert entity["warnings"] == []


@pytest.mark.rules("R6.1")
def test_describe_shows_key_and_decimal(url: str) -> None:
    (entity,) = ksql(url, "DESCRIBE orders EXTENDED;").json()
    fields = {field["name"]: field for field in entity["sourceDescription"]["fields"]}
    assert fields["ID"] == {
        "name": "ID",
        "schema": {"type": "INTEGER", "fields": None, "memberSchema": None},
        "type": "KEY",
    }
    assert fields["PRICE"]["schema"]["parameters"] == {"precision": 6, "scale": 2}
    assert entity["sourceDescription"]["partitions"] == 1


@pytest.mark.rules("R5.3")
def test_statements_without_an_answer_answer_nothing(url: str) -> None:
    text = (
        "SET 'auto.offset.reset' = 'earliest'; INSERT INTO orders (id, item) VALUES (1, 'a'); UNSET"
        " 'auto.offset.reset';"
    )
    assert ksql(url, text).json() == []


@pytest.mark.rules("R5.4")
def test_set_lasts_for_its_request_only(url: str) -> None:
    def overridden(text: str) -> list[str]:
        found: list[str] = ksql(url, text).json()[-1]["overwrittenProperties"]
        return found

    assert overridden("SET 'auto.offset.reset' = 'earliest'; LIST PROPERTIES;") == ["auto.offset.reset"]
    assert overridden("LIST PROPERTIES;") == []


@pytest.mark.rules("R5.7")
def test_alter_system_lasts() -> None:
    with sparkless_server() as running:
        listed = "LIST PROPERTIES;"
        text = f"ALTER SYSTEM 'ksql.suppress.enabled' = 'false'; {listed}"
        altered, own = ksql(running.url, text).json()
        (other,) = ksql(running.url, listed).json()
        refused = ksql(running.url, "ALTER SYSTEM 'ksql.hidden.topics' = 'a';").json()
    assert altered["commandId"].startswith("cluster/")
    assert [own["overwrittenProperties"], other["overwrittenProperties"]] == [["ksql.suppress.enabled"]] * 2
    assert (refused["error_code"], refused["message"]) == (40000, "Cannot override property 'ksql.hidden.topics'")


@pytest.mark.rules("R5.5")
def test_a_source_that_exists_is_a_warning(url: str) -> None:
    (entity,) = ksql(url, ORDERS.format("orders").replace("STREAM", "STREAM IF NOT EXISTS")).json()
    assert entity["@type"] == "warning_entity"
    assert entity["message"].startswith("Cannot add stream `ORDERS`")


@pytest.mark.rules("R5.5")
def test_a_variable_that_is_not_there_is_a_warning(url: str) -> None:
    text = "DEFINE here = 'x'; UNDEFINE here; UNDEFINE given; UNDEFINE nowhere;"
    (entity,) = ksql(url, text, sessionVariables={"given": "y"}).json()
    assert (entity["@type"], entity["statementText"]) == ("warning_entity", "UNDEFINE nowhere;")
    assert "'nowhere'" in entity["message"]


def test_a_server_plans_a_statement_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    def counted(statement: CreateAs, *arguments: Any) -> StatementPlan:
        planned.append(statement.name)
        return plan_create_as(statement, *arguments)

    monkeypatch.setattr("kestrel_sql.session.session.plan_create_as", counted)
    with sparkless_server() as running:
        copies = "CREATE STREAM a AS SELECT * FROM orders; CREATE OR REPLACE STREAM a AS SELECT * FROM orders;"
        made = ksql(running.url, f"{ORDERS.format('orders')} {copies} DROP STREAM a; {copies}").json()
        assert [each["commandStatus"]["queryId"] for each in made] == [
            None,
            "CSAS_A_0",
            "CSAS_A_0",
            None,
            "CSAS_A_2",
            "CSAS_A_2",
        ]
        (explained,) = ksql(running.url, "EXPLAIN CSAS_A_2;").json()
    assert planned == ["A"] * 4
    text = explained["queryDescription"]["statementText"]
    assert text.startswith("CREATE OR REPLACE STREAM A WITH (CLEANUP_POLICY='delete'")


@pytest.mark.rules("R6.2", "R7.1")
def test_queries_are_listed_paused_and_terminated(url: str) -> None:
    (made,) = ksql(url, "CREATE TABLE counts AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;").json()
    query_id = made["commandStatus"]["queryId"]
    (listed,) = ksql(url, "LIST QUERIES;").json()
    (query,) = [each for each in listed["queries"] if each["id"] == query_id]
    assert (query["sinks"], query["queryType"], query["statusCount"]) == (["COUNTS"], "PERSISTENT", {"RUNNING": 1})
    (paused,) = ksql(url, f"PAUSE {query_id};").json()
    assert paused["commandId"] == f"pause/{query_id}/execute"
    assert ksql(url, "LIST QUERIES;").json()[0]["queries"][0]["statusCount"] == {"PAUSED": 1}
    (explained,) = ksql(url, f"EXPLAIN {query_id};").json()
    assert explained["queryDescription"]["executionPlan"]
    (ended,) = ksql(url, f"TERMINATE {query_id};").json()
    assert ended["commandStatus"]["message"] == "Query terminated."
    (dropped,) = ksql(url, "DROP TABLE counts;").json()
    assert dropped["commandStatus"]["message"] == "Source `COUNTS` (topic: COUNTS) was dropped."


@pytest.mark.rules("R4.1", "R8.1")
@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        ("{", 400, 40000, "JSON"),
        ("[]", 400, 40000, "object"),
        ('{"ksql": 7}', 400, 40000, "ksql must be a string"),
        ('{"ksql": "CREATE;"}', 400, 40001, "1:7"),
        ('{"ksql": "TERMINATE nobody;"}', 400, 40001, "Unknown queryId"),
        ("{\"ksql\": \"SET 'auto.offset.reset' = 'earlist';\"}", 400, 40001, "earliest"),
        ("{\"ksql\": \"SET 'nonsense' = 'x';\"}", 400, 40001, "nonsense"),
        ('{"ksql": "CREATE STREAM x (id INT) WITH (KAFKA_TOPIC=\'x\', PARTITIONS=1);"}', 400, 40001, "VALUE_FORMAT"),
        ('{"ksql": "DESCRIBE FUNCTION nothing;"}', 400, 40000, "any functions with the name"),
        ('{"ksql": "LIST TYPES;", "commandSequenceNumber": 9223372036854775808}', 400, 40000, "64 bits"),
        ('{"ksql": "EXPLAIN SELECT * FROM nowhere;"}', 400, 40001, "NOWHERE does not exist."),
        ('{"ksql": "INSERT INTO orders (id) VALUES (\'geheim\');"}', 400, 40001, "(id) VALUES ('[value]');"),
        ('{"ksql": "DROP CONNECTOR c;"}', 400, 40001, "connectors"),
        ('{"ksql": "ASSERT TOPIC nowhere;"}', 417, 41700, "nowhere"),
        ('{"ksql": "LIST TYPES;", "streamsProperties": {"ksql.service.id": "x"}}', 400, 40000, "prohibited"),
        ('{"ksql": "LIST TYPES;", "streamsProperties": {"nonsense": "x"}}', 400, 40000, "nonsense"),
        ('{"ksql": "LIST TYPES;", "streamsProperties": {"ksql.nonsense": "x"}}', 400, 40000, "Not recognizable"),
        ('{"ksql": "LIST TYPES;", "streamsProperties": {"max.poll.records": "x"}}', 400, 40000, "Not a number"),
        ('{"ksql": "LIST TYPES;", "streamsProperties": {"auto.offset.reset": "none"}}', 400, 40000, "earliest"),
    ],
)
def test_an_error_says_what_is_wrong(url: str, body: str, status: int, code: int, says: str) -> None:
    answer = http.post(f"{url}/ksql", content=body)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)
    assert says in answer.json()["message"]
    assert "geheim" not in answer.text


@pytest.mark.rules("R3.3", "R13.4")
@pytest.mark.parametrize("path", ["/info", "/status", "/healthcheck", "/clusterStatus", "/is_valid_property/x"])
def test_what_answers_json_is_not_found_by_who_takes_none(url: str, path: str) -> None:
    for accept, status in (("text/html", 404), ("text/html,*/*;q=0.8", None), ("application/json", None)):
        answer = http.get(f"{url}{path}", headers={"accept": accept})
        assert (answer.text == "Not Found") is (status == 404), (path, accept)
    assert http.post(f"{url}/ksql", json={"ksql": "LIST TYPES;"}, headers={"accept": "text/html"}).status_code == 404
    for header in ({"host": "["}, {"origin": "http://["}):
        answer = http.get(f"{url}{path}", headers=header)
        assert (answer.status_code, answer.json()["error_code"]) == (400, 40000)


@pytest.mark.rules("R5.8")
def test_statements_about_types_say_what_happened_and_ids_ignore_case(url: str) -> None:
    def said(text: str) -> str:
        message: str = ksql(url, text).json()[0]["commandStatus"]["message"]
        return message

    assert (
        said("CREATE TYPE IF NOT EXISTS shade AS INT;")
        == "Registered custom type with name 'SHADE' and SQL type INTEGER"
    )
    assert said("CREATE TYPE IF NOT EXISTS shade AS STRING;") == "SHADE is already registered with type INTEGER"
    assert said("DROP TYPE IF EXISTS shade;") == "Dropped type 'SHADE'"
    assert said("DROP TYPE IF EXISTS shade;") == "Type 'SHADE' does not exist"
    made = ksql(url, "CREATE STREAM cased AS SELECT * FROM orders;").json()[0]["commandStatus"]["queryId"]
    for verb in ("PAUSE", "RESUME", "TERMINATE"):
        assert said(f"{verb} `{made.lower()}`;").startswith("Query ")


@pytest.mark.rules("R8.2")
def test_variables_replace_names(url: str) -> None:
    answer = ksql(url, "DESCRIBE ${which};", sessionVariables={"which": "orders"}).json()
    assert answer[0]["sourceDescription"]["name"] == "ORDERS"


@pytest.mark.rules("R7.3", "R4.1")
def test_a_sequence_that_never_comes_times_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrel_sql.server.serving.service._COMMAND_TIMEOUT_S", 0.2)
    answer = ksql(url, "LIST TYPES;", commandSequenceNumber=10_000)
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50301)


@pytest.mark.rules("R11.1", "R8.3", "R3.1")
def test_the_small_endpoints(url: str) -> None:
    info = http.get(f"{url}/info").json()["KsqlServerInfo"]
    assert info["ksqlServiceId"] == "default_"
    assert info["serverStatus"] == "RUNNING"
    assert info["kafkaClusterId"] == "kestrel"
    assert http.get(f"{url}/healthcheck").json()["isHealthy"] is True
    assert http.get(f"{url}/v1/metadata/id").json()["scope"]["clusters"]["ksql-cluster"] == "default_"
    assert http.get(f"{url}/v1/metadata").json()["version"] == info["version"]
    assert http.get(f"{url}/chc/ready").json() == {}
    assert http.get(f"{url}/clusterStatus").status_code == 404
    assert http.post(f"{url}/heartbeat", json={}).json()["error_code"] == 50000
    assert http.get(f"{url}/is_valid_property/auto.offset.reset").json() is True
    assert http.get(f"{url}/is_valid_property/nonsense").json() is True
    assert http.get(f"{url}/status/stream/none/create").json()["error_code"] == 40400
    for method, path in (("GET", "/ksql"), ("POST", "/info"), ("GET", "/nowhere")):
        missing = http.request(method, url + path)
        assert (missing.status_code, missing.text) == (404, "Not Found")


@pytest.mark.rules("R3.2")
def test_the_root_sends_browsers_to_the_page(url: str) -> None:
    assert http.get(f"{url}/").headers["location"] == "/info"
    assert http.get(f"{url}/", headers={"accept": "text/html,*/*"}).headers["location"] == "/ui"


@pytest.mark.rules("R11.2", "R4.1")
def test_a_terminated_server_says_so() -> None:
    with sparkless_server() as running:
        ksql(running.url, ORDERS.format("gone") + "CREATE STREAM copy AS SELECT * FROM gone;")
        (entity,) = http.post(f"{running.url}/ksql/terminate", json={"deleteTopicList": ["CO.*"]}).json()
        assert entity["commandId"] == "terminate/CLUSTER/execute"
        answer = ksql(running.url, "LIST TYPES;")
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50304)
