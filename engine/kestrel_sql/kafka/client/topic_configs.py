"""What a broker says of its topics: partitions, replicas, how long records are kept."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.admin import admin_client, describe_topics
from kestrel_sql.kafka.client.config import KafkaConfig

TIMEOUT = 30.0
"""Seconds that the broker has to answer."""

_RETENTION = "retention.ms"
_KNOWN_S = 10.0
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """A topic as it was made; `retention_ms` is -1 for ever, and None where the broker does not let us know."""

    partitions: int
    replicas: int
    retention_ms: int | None


def shapes_of(config: KafkaConfig, names: Iterable[str]) -> dict[str, TopicShape]:
    """The topics of these names; those that do not exist are left out.

    Raises:
        QueryError: the broker does not answer; names the topic.
    """
    described = {
        name: each.partitions for name, each in describe_topics(config, names, TIMEOUT, partial(_refused, config))
    }
    if not described:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in described]
    settings = admin_client(config).describe_configs(resources, request_timeout=TIMEOUT)
    kept = {resource.name: _retention(future) for resource, future in settings.items()}
    return {
        name: TopicShape(partitions=len(partitions), replicas=len(partitions[0].replicas), retention_ms=kept[name])
        for name, partitions in described.items()
    }


def _refused(config: KafkaConfig, name: str, reason: KafkaError) -> QueryError:
    return QueryError(
        f"the broker {config.servers} does not describe the topic {name}: {reason.str()}", hint=needed(reason)
    )


def awaited_shape(config: KafkaConfig, name: str) -> TopicShape:
    """A topic that was just made: the controller says that it is there before every broker knows of it.

    Raises:
        QueryError: the broker does not answer, or does not know of it for too long.
    """
    deadline = time.monotonic() + _KNOWN_S
    while True:
        found = shapes_of(config, [name])
        if name in found:
            return found[name]
        if time.monotonic() > deadline:
            raise QueryError(
                f"the broker {config.servers} made the topic {name}, and does not know of it after {_KNOWN_S:.0f} s"
            )
        time.sleep(_LOOK_S)


def _retention(future: Any) -> int | None:
    """The setting of a topic; not everyone who may read a topic may read how it is set."""
    try:
        return int(future.result()[_RETENTION].value)
    except KafkaException:
        return None
