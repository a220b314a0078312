"""A service of ksqlDB is stopped and taken over; with it, its sinks hold what an undisturbed service writes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.ksqldb import needs_ksqldb
from tests.kafka.servers import Servers, eventually
from tests.kafka.takeover import KINDS, TakeOver

pytestmark = pytest.mark.spark


def test_a_service_that_is_taken_over_writes_what_an_undisturbed_one_does(
    kafka: KafkaConfig, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    needs_ksqldb()
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        scene = TakeOver.begin(servers, KINDS)
        scene.feed(200)
        scene.stop()

        # Its JVM would be in the way of theirs.
        spark: SparkSession = request.getfixturevalue("spark")
        heir = servers.here(spark, adopts=True)
        scene.feed(100)
        scene.inputs.close_windows()
        eventually(lambda: heir.said().count("goes on") == len(KINDS), heir)
        for query in KINDS:
            ours, wanted = scene.outputs(query)
            assert ours == wanted, query
