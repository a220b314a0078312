"""Tests that deleting, recreating, truncating or widening a topic stops its query and names the topic."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import Topic
from kestrel_sql.kafka.run.manifest import CheckpointFolder, StoredQuery
from kestrel_sql.kafka.run.topic_changes import damaged
from tests.kafka.applications import Applications, Run
from tests.kafka.helpers import create, delete, produce, read, renew
from tests.kafka.unstarted import execute

STORED = StoredQuery(
    name="CREATE STREAM OUT",
    id="CSAS_OUT_0",
    statement="CREATE STREAM OUT AS SELECT * FROM S;",
    plan={},
    settings={},
    reading="plain",
    sources={"in": Topic("in", "id-1", 1)},
    start={("in", 0): 10},
    pages=1,
)


class _Broker:
    """A broker whose topic has these offsets."""

    def __init__(self, first: int, end: int) -> None:
        self.found, self.held = dict(STORED.sources), (first, end)

    def topics(self, _: object) -> Mapping[str, Topic]:
        return self.found

    def first(self, _: object) -> dict[tuple[str, int], int]:
        return {("in", 0): self.held[0]}

    def ends(self, _: object) -> dict[tuple[str, int], int]:
        return {("in", 0): self.held[1]}


@pytest.mark.parametrize(
    ("first", "end", "said"),
    [
        (0, 30, None),
        (10, 10, None),
        (11, 30, "records 10 to 10 of partition 0 of the topic in were deleted before CSAS_OUT_0 read them"),
        (0, 9, "partition 0 of the topic in ends at offset 9, but CSAS_OUT_0 has read it up to 10"),
    ],
)
def test_offsets_that_are_not_there_are_named(tmp_path: Path, first: int, end: int, said: str | None) -> None:
    broker: Any = _Broker(first, end)
    found = damaged(STORED, CheckpointFolder(tmp_path), broker)
    assert (None if found is None else found.message) == said


def shorten(servers: str, topic: str, before: int) -> None:
    """Delete records as a short retention does."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result()


def widen(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result()


def fill(servers: str, topic: str, rows: int, first: int = 0, size: int = 0) -> None:
    """Produce records with V ascending from `first`, each with a number of extra bytes."""
    moment, more = int(time.time() * 1000), "." * size
    produce(
        servers, topic, ((f"k{at % 5}", json.dumps({"V": first + at, "MORE": more}), moment + at) for at in range(rows))
    )


def outlive(servers: str, topic: str) -> None:
    """Add records, some of which are deleted before any query reads them."""
    fill(servers, topic, 20)
    shorten(servers, topic, 15)


SOURCE = "CREATE STREAM {1} (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_{1}', VALUE_FORMAT='JSON');\n"
PLAIN = "CREATE STREAM O_{1} WITH (KAFKA_TOPIC='{0}_o_{1}') AS SELECT * FROM {1};\n"
JOINED = (
    "CREATE STREAM O_{1} WITH (KAFKA_TOPIC='{0}_o_{1}') AS SELECT {1}.K AS K, {1}.V AS V FROM {1} LEFT JOIN T ON {1}.K"
    " = T.K;\n"
)
TABLE = "CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='{0}_t', VALUE_FORMAT='JSON');\n"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (delete, "which CSAS_O_S_0 reads, was deleted"),
        (renew, "was deleted and created again"),
        (widen, "has 2 partitions instead of 1"),
        (outlive, "records 10 to 14 of partition 0"),
    ],
)
def test_a_query_that_was_stopped_does_not_start_again(
    kafka: KafkaConfig, tmp_path: Path, harm: Any, said: str
) -> None:
    name = f"stopped{time.time_ns()}"
    create(kafka.servers, 1, f"{name}_S")
    fill(kafka.servers, f"{name}_S", 10)
    text = (SOURCE + PLAIN).format(name, "S")
    execute(kafka, tmp_path, text)
    execute(kafka, tmp_path, text)
    harm(kafka.servers, f"{name}_S")
    with pytest.raises(EngineError, match=f"(?s){said}") as caught:
        execute(kafka, tmp_path, text)
    assert f"{name}_S" in caught.value.message
    assert "CSAS_O_S_0" in caught.value.message


HARMED = {
    "DELETED": ("was deleted", PLAIN),
    # The run may look when it is not there again yet.
    "RENEWED": ("was deleted", PLAIN),
    "WIDENED": ("has 2 partitions instead of 1", PLAIN),
    "DELETED_JOINED": ("was deleted", JOINED),
    "RENEWED_JOINED": ("was deleted", JOINED),
    "SHORTENED": ("were deleted before", PLAIN),
    "SHORTENED_JOINED": ("were deleted before", JOINED),
}
FEW = ("RENEWED", "WIDENED", "DELETED_JOINED", "SHORTENED")
MANY, LARGE = 800, 20_000
"""Records and bytes: a consumer has already fetched 1 or 2 MB, which retention cannot delete."""


@pytest.mark.spark
@pytest.mark.parametrize("harmed", [FEW, pytest.param(tuple(HARMED), marks=pytest.mark.nightly)], ids=["few", "all"])
def test_a_query_that_runs_stops_and_the_others_go_on(
    applications: Applications, tmp_path: Path, harmed: Sequence[str]
) -> None:
    servers, name = applications.config.servers, f"runs{time.time_ns()}"
    shortened = [source for source in harmed if "SHORTENED" in source]
    renewed = [source for source in harmed if "RENEWED" in source]
    create(servers, 1, f"{name}_t", f"{name}_WELL", *(f"{name}_{source}" for source in harmed))
    for source in (*harmed, "WELL"):
        fill(servers, f"{name}_{source}", *((MANY, 0, LARGE) if "SHORTENED" in source else (10,)))
    texts = [TABLE, SOURCE + PLAIN, *(SOURCE + HARMED[source][1] for source in harmed)]
    text = "".join(text.format(name, source) for text, source in zip(texts, ("T", "WELL", *harmed), strict=True))
    earliest = {"auto.offset.reset": "earliest"}
    with applications.running(text, tmp_path, properties=earliest, batch_records=20) as run:
        for source in shortened:
            run.await_(partial(_has, servers, f"{name}_o_{source}", 10))
            shorten(servers, f"{name}_{source}", MANY - 50)
        for source in harmed:
            run.await_(partial(_has, servers, f"{name}_o_{source}", 10))
        for source in renewed:
            renew(servers, f"{name}_{source}")
        for source in renewed:
            fill(servers, f"{name}_{source}", 100, 5000)
        delete(servers, *(f"{name}_{source}" for source in harmed if "DELETED" in source))
        widen(servers, f"{name}_WIDENED")
        for source in harmed:
            run.await_(partial(_ends, run, source))
        fill(servers, f"{name}_WELL", 10)
        run.await_(partial(_has, servers, f"{name}_o_WELL", 20))
    assert not run.well
    for source in harmed:
        what, _ = HARMED[source]
        assert any(f"{name}_{source}" in line and what in line for line in _ends(run, source)), _ends(run, source)
        values = [json.loads(value or b"{}")["V"] for _, _, value, _ in read(servers, f"{name}_o_{source}", 1)]
        assert values == list(range(len(values))), f"{source} goes on behind what it has lost: {values}"


def _has(servers: str, topic: str, rows: int) -> bool:
    return len(read(servers, topic, 1)) >= rows


def _ends(run: Run, source: str) -> list[str]:
    """The messages of the run about the failure of a query."""
    return [said for said in run.said if re.match(rf"CSAS_O_{source}_\d+ failed", said)]
