from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from confluent_kafka.admin import NewTopic

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.topic_configs import awaited_shape
from kestrel_sql.kafka.connector.jars import connector_jars

collect_ignore = ["cases"]
"""Cases for a broker: `test_cases.py` runs them there."""

_numbers = count()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaConfig]:
    """A broker of the tests' own, or the one that the environment names."""
    given = os.environ.get("KESTREL_KAFKA")
    if given:
        yield KafkaConfig(servers=given)
        return
    try:
        if note := connector_jars().note:
            # Pytest shows it at the end, also of a run with several workers.
            warnings.warn(note, stacklevel=1)
        broker = Broker.start()
    except EngineError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no broker: {error.message} (KESTREL_KAFKA=HOST:PORT names one)")
    with broker:
        yield KafkaConfig(servers=broker.address)


@pytest.fixture
def topic(kafka: KafkaConfig) -> Callable[..., str]:
    """Makes topics that no other test has."""
    admin = admin_client(kafka)

    def make(partitions: int = 2, **config: str) -> str:
        name = f"t{os.getpid()}_{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, config=settings)]).values():
            future.result()
        awaited_shape(kafka, name)
        return name

    return make
