"""Which of Java's compilers a run uses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.connector.jars import Jars
from kestrel_sql.kafka.run import broker_session
from kestrel_sql.kafka.run.application import passes_blobs
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.session import FIRST_COMPILER, JAVA_OPTIONS

JOIN = "CREATE STREAM C AS SELECT A.ID AS ID FROM A JOIN B ON A.ID = B.ID;"
FILTER = "INSERT INTO C SELECT ID FROM A;"
COUNT = "CREATE TABLE C AS SELECT ID, COUNT(*) FROM A GROUP BY ID;"
TABLE = "CREATE TABLE C AS SELECT ID FROM T;"
REKEYED = "CREATE STREAM C AS SELECT * FROM A PARTITION BY ID;"
SOURCE = "CREATE STREAM A (ID INT KEY) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (JOIN, True),
        (SOURCE + JOIN, True),
        (JOIN + FILTER, True),
        (JOIN + COUNT, False),
        (FILTER + TABLE, False),
        (REKEYED, False),
        (SOURCE, False),
    ],
)
def test_what_records_go_through_java(script: str, *, expected: bool) -> None:
    assert passes_blobs(Session().parse(script)) is expected


@pytest.mark.parametrize(
    ("master", "passes_blobs", "given", "expected"),
    [
        ("local[*]", True, {}, FIRST_COMPILER),
        ("local[*]", True, {JAVA_OPTIONS: "-Xss4m"}, f"{FIRST_COMPILER} -Xss4m"),
        ("local[*]", False, {JAVA_OPTIONS: "-Xss4m"}, "-Xss4m"),
        ("spark://h:1", True, {}, None),
    ],
)
def test_a_run_that_passes_blobs_needs_the_first_compiler_only(
    master: str, given: Mapping[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch, *, passes_blobs: bool
) -> None:
    def open_given(_: str, settings: Mapping[str, str], *__: Any) -> Any:
        found.append(settings.get(JAVA_OPTIONS))
        raise KeyboardInterrupt

    found: list[str | None] = []
    monkeypatch.setattr(broker_session, "connector_jars", lambda: Jars((Path("/kafka.jar"),)))
    monkeypatch.setattr(broker_session, "cluster_settings", lambda *_: {})
    monkeypatch.setattr(broker_session, "open_given", open_given)
    settings = RunSettings(
        config=KafkaConfig(servers="h:1"), checkpoint=Path("c"), master=master, spark=given, passes_blobs=passes_blobs
    )
    with pytest.raises(KeyboardInterrupt):
        broker_session.open_for_brokers(settings, print)
    assert found == [expected]
