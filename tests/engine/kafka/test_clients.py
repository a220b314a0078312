"""Tests that there is one client for each configuration, and that it is never destroyed."""

from __future__ import annotations

import gc
import weakref

import pytest

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.admin import admin, admin_client
from kestrel_sql.kafka.client.config import KafkaConfig

NOBODY = "127.0.0.1:1"


def test_equal_configurations_share_a_client_that_outlives_them() -> None:
    kept = weakref.ref(admin(KafkaConfig(servers=NOBODY, properties={"client.id": "a"})).heard)
    gc.collect()
    assert admin(KafkaConfig(servers=NOBODY, properties={"client.id": "a"})).heard is kept()
    assert admin_client(KafkaConfig(servers=NOBODY, properties={"client.id": "b"})) is not admin_client(
        KafkaConfig(servers=NOBODY, properties={"client.id": "a"})
    )


def test_errors_of_connections_are_collected() -> None:
    found = admin(KafkaConfig(servers=NOBODY))
    found.client.poll(5)
    assert any("Connect" in error.str() for error in found.heard)


def test_a_refused_property_is_named() -> None:
    with pytest.raises(QueryError, match=r"the Kafka configuration is invalid: .*ssl\.ca\.location") as caught:
        admin_client(
            KafkaConfig(servers=NOBODY, properties={"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"})
        )
    assert caught.value.hint is not None
