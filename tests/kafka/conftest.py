from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.topic_configs import awaited_shape
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.run.application import Application
from tests.kafka.applications import Applications, production_session
from tests.kafka.helpers import SUBMIT_ARGUMENTS, create
from tests.kafka.s3 import S3, s3_server
from tests.kafka.secured import Secured, start_secured
from tests.kafka.stored import Stored
from tests.kafka.stores import BUCKET

collect_ignore = ["cases"]
"""Cases for a broker: `test_cases.py` runs them there."""

_HERE = Path(__file__).parent
_numbers = count()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Give the JVM of this process Spark's connector if a test may need it; a JVM loads jars only when it starts."""
    if any(item.get_closest_marker("spark") and _HERE in item.path.parents for item in session.items):
        # Where there are no jars, the fixture `kafka` says so.
        with suppress(EngineError):
            os.environ[SUBMIT_ARGUMENTS] = f"--jars {connector_jars().setting} pyspark-shell"


@pytest.fixture(scope="session")
def connector() -> None:
    """Skips tests where Spark's connector is not to be had; says which one is used."""
    try:
        if note := connector_jars().note:
            # Pytest shows it at the end, also of a run with several workers.
            warnings.warn(note, stacklevel=1)
    except EngineError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no broker: {error.message} (KESTREL_KAFKA=HOST:PORT names one)")


@pytest.fixture(scope="package")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaConfig]:
    """A broker started for the tests, or the one that the environment names."""
    given = os.environ.get("KESTREL_KAFKA")
    if given:
        yield KafkaConfig(servers=given)
        return
    request.getfixturevalue("connector")
    with Broker.start() as broker:
        yield KafkaConfig(servers=broker.address)


@pytest.fixture(scope="module")
def secured(connector: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with passwords, certificates and ACLs; it does not stay beside the other one for two files of tests."""
    broker, found = start_secured(tmp_path_factory.mktemp("stores"), lambda more: Broker.start(more=more))
    with broker:
        yield found


@pytest.fixture
def topic(kafka: KafkaConfig) -> Callable[..., str]:
    """Creates topics with unique names."""
    admin = admin_client(kafka)

    def make(partitions: int = 2, **config: str) -> str:
        name = f"t{os.getpid()}_{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, config=settings)]).values():
            future.result()
        awaited_shape(kafka, name)
        return name

    return make


@pytest.fixture(scope="session")
def spark(connector: None) -> SparkSession:
    """The Spark session of all tests in this folder."""
    return production_session()


@pytest.fixture
def applications(kafka: KafkaConfig, spark: SparkSession) -> Applications:
    """Runs scripts in this process against the broker of the tests."""
    return Applications(spark, kafka)


@pytest.fixture
def commands(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`main(["run", …])` runs scripts in this process, in the shared session."""
    shared = partial(Application, open_spark=lambda *_: spark, close_spark=lambda _: None)
    monkeypatch.setattr("kestrel_sql.cli.run_kafka.Application", shared)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer is given up sooner than users want it."""
    monkeypatch.setattr("kestrel_sql.kafka.client.offsets._ANSWER_S", 0.5)


@pytest.fixture
def s3() -> Iterator[S3]:
    with s3_server() as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def stored(kafka: KafkaConfig, tmp_path: Path) -> Stored:
    name = f"store_{time.time_ns()}"
    create(kafka.servers, 2, f"{name}_s")
    return Stored(kafka.servers, tmp_path, {}, name)
