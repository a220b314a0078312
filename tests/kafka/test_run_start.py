"""A run whose queries Spark cannot start at first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from kestrel_sql.kafka.source.source import spark_source
from tests.kafka.applications import Applications
from tests.kafka.helpers import produce, read

pytestmark = pytest.mark.spark


def test_a_start_that_spark_refuses_is_tried_again(
    applications: Applications, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process in which Spark plans a source may be killed like any other."""
    source, sink, servers = topic(1), topic(1), applications.config.servers
    produce(servers, source, [("a", '{"V":1}', 1)])
    refusals = [PySparkException("a process of Spark has died")]

    def refused(*given: Any) -> DataFrame:
        if refusals:
            raise refusals.pop()
        return spark_source(*given)

    monkeypatch.setattr("kestrel_sql.kafka.run.running_query.spark_source", refused)
    run = applications.catch_up(
        f"CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');"
        f"CREATE STREAM C WITH (KAFKA_TOPIC='{sink}') AS SELECT * FROM S;",
        tmp_path,
    )
    assert run.well
    assert "CSAS_C_0: a process of Spark has died; trying again" in run.text
    assert [value for _, _, value, _ in read(servers, sink, 1)] == [b'{"V":1}']


def test_a_property_that_java_s_client_refuses_ends_the_query_with_its_name(
    applications: Applications, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = topic(1), topic(1)
    produce(applications.config.servers, source, [("a", '{"V":1}', 1)])
    refused = replace(applications.config, properties={**applications.config.properties, "session.timeout.ms": "lots"})
    run = replace(applications, config=refused).catch_up(
        f"CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');"
        f"CREATE TABLE C WITH (KAFKA_TOPIC='{sink}') AS SELECT K, COUNT(*) FROM S GROUP BY K;",
        tmp_path,
    )
    assert not run.well
    assert "the Kafka configuration is invalid: Invalid value lots for configuration session.timeout.ms" in run.text
    assert "trying again" not in run.text
