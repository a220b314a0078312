"""The requests that keep a server busy, on a broker: its event loop does no more of them than one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.bench.responsive import setup
from tests.engine.server.faces import VERSIONS, Place
from tests.engine.server.loop import REQUESTS, check_loop, watching
from tests.kafka.servers import Servers, eventually

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def place(kafka: KafkaConfig, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path_factory.mktemp("serve"), stack)
        with watching():
            server = servers.here(spark)
            eventually(server.is_up, server)
        server.ksql(setup(servers.service))
        eventually(lambda: server.query("SELECT n FROM t;") == [[1]], server)
        yield Place(server.url, "s", servers.service)


@pytest.mark.rules("R14.5")
@pytest.mark.parametrize(("name", "version"), [*zip(REQUESTS, cycle(VERSIONS), strict=False)])
def test_the_event_loop_does_no_work_of_a_request(place: Place, name: str, version: str) -> None:
    check_loop(place.url, name, version, place.topics)
