"""Tests `kestrel run` against a broker: refusals before the start, and effects that happen once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import create, read, renew
from tests.kafka.unstarted import NotStartedError, application

pytestmark = pytest.mark.spark

SOURCE = "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');"
FILTER = "CREATE STREAM OUT WITH (KAFKA_TOPIC='{0}_out') AS SELECT * FROM S WHERE V > {1};"


def prepare(config: KafkaConfig, checkpoint: Path, text: str, patience: float = 5.0) -> list[str]:
    """Do all work before Spark starts; return the messages to the user."""
    told: list[str] = []
    with pytest.raises(NotStartedError):
        application(config, checkpoint, [], told, patience).run(text)
    return told


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname}_{time.time_ns()}"


def test_a_changed_query_does_not_start(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    create(kafka.servers, 1, f"{name}_s")
    prepare(kafka, tmp_path, (SOURCE + FILTER).format(name, 1))
    prepare(kafka, tmp_path, (SOURCE + FILTER).format(name, 1))
    with pytest.raises(EngineError, match=r"(?s)CSAS_OUT_0.*V > 1.*V > 2"):
        prepare(kafka, tmp_path, (SOURCE + FILTER).format(name, 2))
    told = prepare(kafka, tmp_path, (SOURCE + FILTER.replace("OUT", "OTHER").replace("_out", "_other")).format(name, 2))
    assert told == ["CSAS_OUT_0 is in the checkpoint but not in the script, so it does not run"]


def test_a_topic_that_has_changed_is_named(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    text = (SOURCE + FILTER).format(name, 1)
    with pytest.raises(EngineError, match=f"the topic {name}_s does not exist"):
        prepare(kafka, tmp_path, text)
    create(kafka.servers, 1, f"{name}_s")
    prepare(kafka, tmp_path, text)
    renew(kafka.servers, f"{name}_s")
    with pytest.raises(EngineError, match=f"{name}_s.*was deleted and created again"):
        prepare(kafka, tmp_path, text)


@pytest.mark.parametrize("key", ["S.K", "UCASE(S.K)"])
def test_a_join_of_topics_with_different_partitions_is_refused(
    kafka: KafkaConfig, tmp_path: Path, name: str, key: str
) -> None:
    create(kafka.servers, 2, f"{name}_s")
    create(kafka.servers, 3, f"{name}_t")
    text = (
        SOURCE + "CREATE TABLE T (K STRING PRIMARY KEY, N INT) WITH (KAFKA_TOPIC='{0}_t', VALUE_FORMAT='JSON');"
        "CREATE STREAM J WITH (KAFKA_TOPIC='{0}_j') AS SELECT T.K, V, N FROM S JOIN T ON {1} = T.K;"
    )
    with pytest.raises(EngineError, match=f"`{name}_s` partitions = 2; `{name}_t` partitions = 3"):
        prepare(kafka, tmp_path, text.format(name, key))


def test_values_are_inserted_by_the_first_start_only(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    text = (
        SOURCE.replace("JSON'", "JSON', PARTITIONS=1")
        + "INSERT INTO S (ROWTIME, K, V) VALUES (5, 'a', 1);" * 2
        + FILTER
    )
    for _ in range(2):
        prepare(kafka, tmp_path, text.format(name, 1))
    assert read(kafka.servers, f"{name}_s", 1) == [(0, b"a", b'{"V":1}', 5)] * 2


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_is_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"the broker 127\.0\.0\.1:1 does not answer"):
        prepare(
            KafkaConfig(servers="127.0.0.1:1"),
            tmp_path,
            "CREATE STREAM S (V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            0.1,
        )
