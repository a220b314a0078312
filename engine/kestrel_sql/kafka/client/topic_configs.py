"""Asks a broker for the partitions, replicas and retention of topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigEntry, ConfigResource

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.admin import admin_client, describe_topics
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.planner.properties.topic_shape import TopicShape

TIMEOUT = 30.0
"""The timeout (s) of requests to the broker."""

_RETENTION = "retention.ms"
_KNOWN_S = 10.0
_LOOK_S = 0.02


def shapes_of(config: KafkaConfig, names: Iterable[str]) -> dict[str, TopicShape]:
    """Return the configurations of the topics with these names that exist.

    Raises:
        QueryError: the broker does not describe a topic; names it.
    """
    described = {
        name: each.partitions for name, each in describe_topics(config, names, TIMEOUT, partial(_refused, config))
    }
    if not described:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in described]
    settings = admin_client(config).describe_configs(resources, request_timeout=TIMEOUT)
    retentions = {resource.name: _retention(future) for resource, future in settings.items()}
    return {
        name: TopicShape(
            partitions=len(partitions), replicas=len(partitions[0].replicas), retention_ms=retentions[name]
        )
        for name, partitions in described.items()
    }


def _refused(config: KafkaConfig, name: str, reason: KafkaError) -> QueryError:
    return broker_error(f"the broker {config.servers} does not describe the topic {name}: {reason.str()}", reason)


def awaited_shape(config: KafkaConfig, name: str) -> TopicShape:
    """Wait for a new topic, and return its configuration: the controller confirms it before every broker knows it.

    Raises:
        QueryError: the broker does not answer, or does not know the topic in time.
    """
    deadline = time.monotonic() + _KNOWN_S
    while True:
        found = shapes_of(config, [name])
        if name in found:
            return found[name]
        if time.monotonic() > deadline:
            raise QueryError(
                f"the broker {config.servers} created the topic {name}, but does not know it after {_KNOWN_S:.0f} s"
            )
        time.sleep(_LOOK_S)


def _retention(future: Future[Mapping[str, ConfigEntry]]) -> int | None:
    """The retention of a topic (ms); None if the user may not read the configuration."""
    try:
        return int(future.result()[_RETENTION].value or -1)
    except KafkaException:
        return None
