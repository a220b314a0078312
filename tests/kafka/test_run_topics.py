"""Tests statements about topics against a broker: creating, refusing and showing them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from kestrel_sql.admin.answer import Answer
from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.topic_configs import TopicShape, shapes_of
from tests.kafka.helpers import produce, read
from tests.kafka.unstarted import application, execute

pytestmark = pytest.mark.spark

Topic = Callable[..., str]

S = "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}', VALUE_FORMAT='JSON'{1});"


DECLARED = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON', PARTITIONS=3, REPLICAS=1, RETENTION_MS=86400000);
CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='{0}_t', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE W (K STRING PRIMARY KEY) WITH (KAFKA_TOPIC='{0}_w', VALUE_FORMAT='JSON', PARTITIONS=1, WINDOW_TYPE='SESSION');
CREATE STREAM A WITH (KAFKA_TOPIC='{0}_a') AS SELECT * FROM S;
CREATE STREAM B WITH (KAFKA_TOPIC='{0}_b', PARTITIONS=5, RETENTION_MS=3600000) AS SELECT * FROM S;
CREATE TABLE C WITH (KAFKA_TOPIC='{0}_c') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
CREATE TABLE D WITH (KAFKA_TOPIC='{0}_d', RETENTION_MS=5000) AS
  SELECT K, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 1 SECOND, RETENTION 1 DAY, GRACE PERIOD 0 SECONDS) GROUP BY K;
"""


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname}_{time.time_ns()}"


def settings(config: KafkaConfig, topic: str) -> tuple[str, str]:
    admin = admin_client(config)
    [future] = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    found = future.result()
    return found["cleanup.policy"].value, found["retention.ms"].value


@pytest.mark.rules("L6.4", "L6.5")
def test_topics_are_made_as_they_are_declared(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    execute(kafka, tmp_path, DECLARED.format(name))
    made = shapes_of(kafka, [f"{name}_{end}" for end in "stwabcd"])
    assert {topic[-1]: shape.partitions for topic, shape in made.items()} == {
        "s": 3,
        "t": 2,
        "w": 1,
        "a": 3,
        "b": 5,
        "c": 3,
        "d": 3,
    }
    day = "86400000"
    assert settings(kafka, f"{name}_s") == ("delete", day)
    assert settings(kafka, f"{name}_t")[0] == "compact"
    assert settings(kafka, f"{name}_w")[0] == "compact"
    assert settings(kafka, f"{name}_a") == ("delete", day)
    assert settings(kafka, f"{name}_b") == ("delete", "3600000")
    assert settings(kafka, f"{name}_c")[0] == "compact"
    assert settings(kafka, f"{name}_d") == ("compact,delete", day)


@pytest.mark.rules("L6.4")
@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("PARTITIONS=3", "2 partitions, not 3"),
        ("PARTITIONS=2, REPLICAS=2", "1 replicas, not 2"),
        ("PARTITIONS=2, RETENTION_MS=7", "a retention of 5000 ms, not 7 ms"),
        ("PARTITIONS=4, RETENTION_MS=7", "2 partitions, not 4, a retention of 5000 ms, not 7 ms"),
    ],
)
def test_a_topic_that_is_otherwise_is_refused(
    kafka: KafkaConfig, tmp_path: Path, topic: Topic, clause: str, said: str
) -> None:
    existing = topic(2, retention_ms="5000")
    with pytest.raises(StatementError) as caught:
        execute(kafka, tmp_path, S.format(existing, f", {clause}"))
    assert caught.value.message == f"the topic {existing} exists and has {said}"


def test_a_topic_that_is_as_declared_is_taken(kafka: KafkaConfig, tmp_path: Path, topic: Topic) -> None:
    existing = topic(2, retention_ms="5000")
    for clause in ("", ", PARTITIONS=2", ", PARTITIONS=2, REPLICAS=1, RETENTION_MS=5000"):
        execute(kafka, tmp_path, S.format(existing, clause))
    assert shapes_of(kafka, [existing]) == {existing: TopicShape(partitions=2, replicas=1, retention_ms=5000)}


def test_a_sink_has_to_have_the_partitions_of_its_source(kafka: KafkaConfig, tmp_path: Path, topic: Topic) -> None:
    source, sink = topic(2), topic(3)
    query = "CREATE STREAM A WITH (KAFKA_TOPIC='{0}'{1}) AS SELECT * FROM S;"
    with pytest.raises(StatementError, match=f"the topic {sink} exists and has 3 partitions, not 2"):
        execute(kafka, tmp_path, S.format(source, "") + query.format(sink, ""))
    execute(kafka, tmp_path, S.format(source, "") + query.format(sink, ", PARTITIONS=3"))


STREAM = "CREATE STREAM A WITH (KAFKA_TOPIC='{0}'{1}) AS SELECT * FROM S;"
TABLE = "CREATE TABLE A WITH (KAFKA_TOPIC='{0}'{1}) AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;"
WINDOWED = TABLE.replace("GROUP", "WINDOW TUMBLING (SIZE 1 SECOND, RETENTION 9 SECONDS, GRACE PERIOD 0 SECONDS) GROUP")


@pytest.mark.parametrize(
    ("query", "kept", "clause", "said"),
    [
        (STREAM, "2000", "", "a retention of 2000 ms, not 5000 ms"),
        (STREAM, "5000", ", RETENTION_MS=2000", "a retention of 5000 ms, not 2000 ms"),
        (STREAM, "2000", ", RETENTION_MS=2000", None),
        (STREAM, "5000", "", None),
        (WINDOWED, "5000", "", "a retention of 5000 ms, not 9000 ms"),
        (WINDOWED, "9000", ", RETENTION_MS=10000", "a retention of 9000 ms, not 10000 ms"),
        (WINDOWED, "9000", ", RETENTION_MS=3", None),
        (TABLE, "2000", "", None),
    ],
)
def test_an_existing_sink_must_have_the_inherited_retention(
    kafka: KafkaConfig, tmp_path: Path, topic: Topic, query: str, kept: str, clause: str, said: str | None
) -> None:
    source, sink = topic(1, retention_ms="5000"), topic(1, retention_ms=kept)
    text = S.format(source, "") + query.format(sink, clause)
    if said is None:
        execute(kafka, tmp_path, text)
        # A start from a checkpoint finds what the first one found.
        execute(kafka, tmp_path, text)
        return
    with pytest.raises(StatementError) as caught:
        execute(kafka, tmp_path, text)
    assert caught.value.message == f"the topic {sink} exists and has {said}"


def test_the_source_of_a_resumed_query_may_have_a_longer_retention(
    kafka: KafkaConfig, tmp_path: Path, topic: Topic
) -> None:
    source, sink = topic(1, retention_ms="5000"), topic(1, retention_ms="5000")
    text = S.format(source, "") + STREAM.format(sink, "")
    execute(kafka, tmp_path, text)
    setting = ConfigEntry("retention.ms", "7000", incremental_operation=AlterConfigOpType.SET)
    longer = ConfigResource(ConfigResource.Type.TOPIC, source, incremental_configs=[setting])
    [future] = admin_client(kafka).incremental_alter_configs([longer]).values()
    future.result()
    execute(kafka, tmp_path, text)
    with pytest.raises(StatementError, match="a retention of 5000 ms, not 7000 ms"):
        execute(kafka, tmp_path / "other", text)


def test_more_replicas_than_brokers_are_refused_with_the_message_of_the_broker(
    kafka: KafkaConfig, tmp_path: Path, name: str
) -> None:
    with pytest.raises(StatementError, match=f"the topic {name} was not created: .*[Rr]eplication factor"):
        execute(kafka, tmp_path, S.format(name, ", PARTITIONS=1, REPLICAS=30"))


def test_show_describe_and_assert_see_the_broker(kafka: KafkaConfig, tmp_path: Path, topic: Topic, name: str) -> None:
    existing = topic(3)
    text = (
        f"{S.format(existing, '')} SHOW TOPICS; DESCRIBE S EXTENDED; ASSERT TOPIC '{existing}' WITH (PARTITIONS=3,"
        f" REPLICAS=1);ASSERT NOT EXISTS TOPIC {name};"
    )
    shown, described, *asserted = execute(kafka, tmp_path, text)
    assert (existing, 3, "1") in shown.rows
    assert not [row for row in shown.rows if str(row[0]).startswith("__")]
    assert ("S", "Kafka topic", f"{existing} (partitions: 3, replication: 1)") in described.rows
    assert [answer.message for answer in asserted] == [f"Topic {existing} exists.", f"Topic {name} does not exist."]
    with pytest.raises(StatementError, match="For config partitions, expected 2 got 3"):
        execute(kafka, tmp_path, f"ASSERT TOPIC {existing} WITH (PARTITIONS=2) TIMEOUT 1 MILLISECOND;")


def test_an_assertion_waits_for_a_topic_that_another_makes(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    maker = threading.Timer(0.5, lambda: execute(kafka, tmp_path / "other", S.format(name, ", PARTITIONS=1")))
    maker.start()
    [answer] = execute(kafka, tmp_path / "own", f"ASSERT TOPIC {name} TIMEOUT 30 SECONDS;")
    maker.join()
    assert answer.message == f"Topic {name} exists."


def test_print_shows_the_records_of_a_topic(kafka: KafkaConfig, tmp_path: Path, topic: Topic) -> None:
    source = topic(1)
    produce(
        kafka.servers, source, [*((f"k{n}", f'{{"V":{n}}}', 1_700_000_000_123 + n) for n in range(6)), ("bad", "{", 9)]
    )
    printed = execute(kafka, tmp_path, S.format(source, "") + f"PRINT {source} FROM BEGINNING;")
    lines = [line for answer in printed for line in answer.lines]
    assert lines[1:3] == [
        "Value format: JSON or KAFKA_STRING",
        'rowtime: 2023/11/14 22:13:20.123 Z, key: k0, value: {"V":0}, partition: 0',
    ]
    assert lines[-1] == "rowtime: 1970/01/01 00:00:00.009 Z, key: bad, value: 7b, partition: 0"
    assert len(lines) == 9
    printed = execute(kafka, tmp_path, f"PRINT '{source}' FROM BEGINNING INTERVAL 2 LIMIT 2;")
    assert [line[-29:] for answer in printed for line in answer.lines][2:] == [
        f'key: k{n}, value: {{"V":{n}}}, partition: 0'[-29:] for n in (0, 2)
    ]


def test_print_without_from_beginning_waits_for_new_records(kafka: KafkaConfig, tmp_path: Path, topic: Topic) -> None:
    source = topic(1)
    produce(kafka.servers, source, [("old", "1", 5)])
    stop = threading.Event()

    def keep_producing() -> None:
        while not stop.wait(0.3):
            produce(kafka.servers, source, [("new", "2", 6)])

    producing = threading.Thread(target=keep_producing)
    producing.start()
    try:
        answers = execute(kafka, tmp_path, f"PRINT {source} LIMIT 2;")
    finally:
        stop.set()
        producing.join()
    lines = [line for answer in answers for line in answer.lines]
    assert ["key: new, value: 2" in line for line in lines] == [False, False, True, True]


def test_a_stop_ends_a_print_that_waits(kafka: KafkaConfig, tmp_path: Path, topic: Topic) -> None:
    source, answers = topic(1), list[Answer]()
    run = application(kafka, tmp_path, answers, [])
    threading.Timer(0.5, run.stop.set).start()
    assert run.run(f"PRINT {source}; SHOW TOPICS;")
    assert [line.split(":")[0] for answer in answers for line in answer.lines] == ["Key format", "Value format"]


def test_print_of_a_topic_that_is_not_there_says_so(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    with pytest.raises(StatementError, match=f"Could not find topic '{name}'"):
        execute(kafka, tmp_path, f"PRINT {name} FROM BEGINNING;")


def test_drop_deletes_the_topic_once(kafka: KafkaConfig, tmp_path: Path, topic: Topic) -> None:
    source = topic(1)
    text = S.format(source, ", PARTITIONS=1") + "INSERT INTO S (K, V) VALUES ('a', 1); DROP STREAM S DELETE TOPIC;"
    execute(kafka, tmp_path, text)
    assert source not in shapes_of(kafka, [source])
    execute(kafka, tmp_path, text + S.format(source, ""))
    assert read(kafka.servers, source, 1) == []


@pytest.mark.rules("L5.15")
def test_schemas_go_with_their_topic(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    made = f"CREATE STREAM S (V INT) WITH (KAFKA_TOPIC='{name}', VALUE_FORMAT='AVRO', PARTITIONS=1);"
    for clause, subjects in (("", (f"{name}-value",)), (" DELETE TOPIC", ())):
        run = application(kafka, tmp_path, [], [])
        assert run.run(f"{made} DROP STREAM S{clause};")
        assert run.session.registry.subjects() == subjects


@pytest.mark.parametrize("text", ["SELECT * FROM S EMIT CHANGES;", "TERMINATE ALL;", "PAUSE CSAS_A_0;"])
def test_statements_for_a_prompt_are_refused_in_a_script(
    kafka: KafkaConfig, tmp_path: Path, topic: Topic, text: str
) -> None:
    with pytest.raises(EngineError) as caught:
        execute(kafka, tmp_path, S.format(topic(1), "") + text)
    assert caught.value.hint
