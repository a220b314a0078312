"""A query begins with a checkpoint of ksqlDB's state, and the work in flight is written with the offsets behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import QueryError
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.run import taken_state
from kestrel_sql.kafka.run.adoption import Adoption
from kestrel_sql.kafka.run.manifest import StoredQuery
from kestrel_sql.kafka.run.taken_state import Place, is_written, write_taken
from kestrel_sql.kafka.takeover.broker import committed_of, internal_topics, is_at_least_once, read_left
from kestrel_sql.kafka.takeover.history import computed
from kestrel_sql.kafka.takeover.take_over import take_over
from kestrel_sql.plan.codec.plan_file import encode_statement
from kestrel_sql.planner.config import Config
from kestrel_sql.process.query import ProcessQuery
from kestrel_sql.server.broker.command_topic import CommandTopic
from kestrel_sql.server.broker.dry_run import forecasts
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.state_tools.stored_query import open_stored
from kestrel_sql.topics.records import Record
from tests.kafka.helpers import create, produce, read

SETTINGS = {"spark.sql.shuffle.partitions": "2"}
KEYS = "abcdef"
STORE, VARIABLE = "Aggregate-Aggregate-Materialize", "KSQL_AGG_VARIABLE_0"


def spark() -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=SETTINGS.get))


def test_a_state_is_written_once_with_what_the_work_in_flight_gives(
    kafka: KafkaConfig, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = topic(partitions=2), topic(partitions=2)
    group = f"{source}-q"
    changelog, grouped = f"{group}-{STORE}-changelog", f"{group}-Aggregate-GroupBy-repartition"
    create(kafka.servers, 2, changelog, grouped)
    state = {"C": "x", VARIABLE: 4}
    produce(kafka.servers, changelog, [(key, json.dumps({**state, "C": key}), 5) for key in KEYS])
    produce(kafka.servers, grouped, [(key, json.dumps({"C": key, "ROWTIME": 9}), 9) for key in KEYS])

    session = Session()
    for parsed in session.parse(f"""
        CREATE STREAM s (k STRING KEY, c STRING) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');
        CREATE TABLE r WITH (KAFKA_TOPIC='{sink}') AS SELECT c, COUNT(*) AS n FROM s GROUP BY c;
    """):
        session.execute(parsed)
    (query,) = session.queries.values()
    pipeline, offsets = build_pipeline([QueryRun(plan=query.plan)], FUNCTIONS), BrokerOffsets(kafka)
    stored = StoredQuery(
        name="q",
        id="q",
        statement="",
        plan={},
        settings={},
        reading="merged",
        sources=offsets.topics([source]),
        start={(source, 0): 3, (source, 1): 4},
        pages=8,
        has_task_pages=True,
    )
    place = Place(folder=tmp_path / "q", spark=spark, serde=lambda spec: spec)

    def left() -> Any:
        internal = internal_topics(offsets, group)
        committed = committed_of(kafka, group, internal)
        found = read_left(offsets, group, committed, internal, sink)
        assert is_at_least_once(found, offsets.written(internal))
        return found

    taken = take_over(pipeline.graph, 2, left(), place.serde)
    with monkeypatch.context() as broken:
        broken.setattr(taken_state, "write_in_flight", refuse)
        with pytest.raises(QueryError):
            write_taken(kafka, stored, pipeline, taken, group, place)
    assert not is_written(place.folder, left())
    write_taken(kafka, stored, pipeline, taken, group, place)
    assert is_written(place.folder, left())

    written = [(key, json.loads(value or b""), time) for _, key, value, time in read(kafka.servers, sink, 2)]
    assert sorted(written) == [(key.encode(), {"N": 5}, 9) for key in KEYS]
    # Each key is in the partition where its next result goes.
    placed = {(partition, key) for partition, key, _, _ in read(kafka.servers, sink, 2)}
    assert placed == {(partition, key) for partition, key, _, _ in read(kafka.servers, changelog, 2)}
    begun = open_stored(place.folder, FUNCTIONS)
    (step,) = begun.steps
    assert sorted((entry.key.decode(), entry.value) for _, entry in begun.rows(step)) == [
        (key, (key, 9, 5)) for key in KEYS
    ]
    assert [entry.key for _, entry in begun.rows(step, ("c",))].count(b"c") == 1


def test_a_state_is_computed_from_the_records_between_two_offsets_in_the_order_of_their_times(
    kafka: KafkaConfig, topic: Callable[..., str]
) -> None:
    source, session = topic(partitions=2), Session()
    for parsed in session.parse(f"""
        CREATE STREAM s (k STRING KEY, c STRING, v INT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');
        CREATE TABLE r AS SELECT c, COUNT(*) AS n, LATEST_BY_OFFSET(v, 9) AS vs FROM s GROUP BY c;
    """):
        session.execute(parsed)
    (query,) = session.queries.values()
    graph = build_pipeline([QueryRun(plan=query.plan)], FUNCTIONS).graph
    producer = Producer({"bootstrap.servers": kafka.servers})
    for at in range(8):
        value = json.dumps({"C": "x", "V": at})
        producer.produce(source, key=f"{at}", value=value, timestamp=10 + at, partition=at % 2)
    assert producer.flush(30) == 0
    taken, count = computed(kafka, graph, 2, {(source, 0): 1, (source, 1): 0}, {(source, 0): 3, (source, 1): 3})
    assert count == 5
    process, output = ProcessQuery(graph, 2), Output()
    process.restore(taken.states)
    last = Record(topic=source, key=b"6", value=b'{"C": "x", "V": 6}', timestamp=16, partition=0, offset=3)
    process.process([last], output)
    assert [json.loads(record.value or b"") for record in output.records] == [{"N": 6, "VS": [1, 2, 3, 4, 5, 6]}]


def test_a_dry_run_says_what_is_taken_and_why_not(kafka: KafkaConfig, topic: Callable[..., str]) -> None:
    source = topic(partitions=1)
    service, session = f"d{source}_", Session(config=Config.of({"auto.offset.reset": "earliest"}))
    commands = CommandTopic(kafka, service)
    commands.open()
    for parsed in session.parse(f"""
        CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');
        CREATE STREAM f WITH (KAFKA_TOPIC='{source}f', PARTITIONS=1) AS SELECT * FROM s;
        CREATE TABLE c WITH (KAFKA_TOPIC='{source}c', PARTITIONS=1) AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
        CREATE TABLE d WITH (KAFKA_TOPIC='{source}d', PARTITIONS=1) AS SELECT k, COUNT_DISTINCT(v) AS n FROM s GROUP BY k;
        CREATE STREAM gone WITH (KAFKA_TOPIC='{source}g', PARTITIONS=1) AS SELECT * FROM s;
    """):
        plan = session.execute(parsed).plan
        assert plan is not None
        commands.write(f"stream/{len(session.queries)}/create", parsed.text, ({}, {}), encode_statement(plan))
    *ids, gone = session.queries
    commands.write(f"terminate/{gone}/execute", f"TERMINATE {gone};", ({}, {}), None)
    commands.close()
    create(kafka.servers, 1, *(f"{source}{name}" for name in "fcdg"))
    produce(kafka.servers, source, [("a", "{}", 5), ("a", "{}", 6)])
    groups = [f"_confluent-ksql-{service}query_{query}" for query in ids]
    for group in groups[1:]:
        create(kafka.servers, 1, f"{group}-{STORE}-changelog")
    produce(kafka.servers, f"{groups[1]}-{STORE}-changelog", [("a", json.dumps({"K": "a", VARIABLE: 1}), 5)])
    for group in groups:
        commit(kafka.servers, group, source, 1)

    def adoption(**options: Any) -> Adoption:
        return Adoption(kafka, service, lambda _: None, **options)

    found = [*forecasts(adoption(), Session())]
    assert [(each.query_id, each.is_taken) for each in found] == [*zip(ids, (True, True, False), strict=True)]
    assert found[0].text == f"has no state, and goes on at {source}-0 at 1"
    assert found[1].text == (
        f"goes on at {source}-0 at 1 with 1 keys of {STORE}; it ran at least once, so that up to 1 records may count twice"
    )
    assert "COUNT_DISTINCT" in found[2].text
    found = [*forecasts(adoption(rebuilds=True), Session())]
    assert found[2].is_taken
    assert found[2].text.startswith("begins anew: ")
    for sink_from, at in (({}, 1), ({(source, 0): 2}, 2)):
        found = [*forecasts(adoption(rebuilds=True, sink_from=sink_from), Session())]
        assert found[2].text.startswith(f"begins anew and writes from {source}-0 at {at}: ")
    found = [*forecasts(adoption(rebuilds=True, sink_from={("other", 0): 2}), Session())]
    assert f"--sink-from has no offset of {source}-0" in found[2].text
    assert [each.is_taken for each in found] == [True, True, False]


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": group})
    with closing(consumer):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def refuse(*_: object) -> None:
    raise QueryError("the broker is away")
