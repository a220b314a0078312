"""A query begins with a checkpoint of ksqlDB's state, and the work in flight is written with the offsets behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.errors import QueryError
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.run import taken_state
from kestrel_sql.kafka.run.manifest import StoredQuery
from kestrel_sql.kafka.run.taken_state import Place, is_written, write_taken
from kestrel_sql.kafka.takeover.broker import committed_of, internal_topics, is_at_least_once, read_left
from kestrel_sql.kafka.takeover.take_over import take_over
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.state_tools.stored_query import open_stored
from tests.kafka.helpers import create, produce, read

SETTINGS = {"spark.sql.shuffle.partitions": "2"}
KEYS = "abcdef"


def spark() -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=SETTINGS.get))


def test_a_state_is_written_once_with_what_the_work_in_flight_gives(
    kafka: KafkaConfig, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = topic(partitions=2), topic(partitions=2)
    group = f"{source}-q"
    changelog, grouped = f"{group}-Aggregate-Aggregate-Materialize-changelog", f"{group}-Aggregate-GroupBy-repartition"
    create(kafka.servers, 2, changelog, grouped)
    state = {"C": "x", "KSQL_AGG_VARIABLE_0": 4}
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
        found = read_left(kafka, group, committed, internal, sink)
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


def refuse(*_: object) -> None:
    raise QueryError("the broker is away")
