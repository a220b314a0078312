"""What a broker says of its topics: partitions, replicas, how long records are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from engine.errors import QueryError
from engine.kafka.config import KafkaConfig

TIMEOUT = 30.0
"""Seconds that the broker has to answer."""

_RETENTION = "retention.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """A topic as it was made; `retention_ms` is -1 for ever, and None where the broker does not let us know."""

    partitions: int
    replicas: int
    retention_ms: int | None


def admin_client(config: KafkaConfig) -> Any:
    """The process's client of a broker.

    It is kept: one that nobody holds is destroyed, and its answer with it; and one that stands in the traceback of an error may be
    destroyed by the garbage collector inside a thread of librdkafka, which then aborts the process.
    """
    return _kept_client(tuple(sorted(config.client().items())))


@lru_cache(maxsize=16)
def _kept_client(properties: tuple[tuple[str, Any], ...]) -> Any:
    return AdminClient({**dict(properties), "log_level": 0})


def shapes_of(config: KafkaConfig, names: Iterable[str]) -> dict[str, TopicShape]:
    """The topics of these names; those that do not exist are left out.

    Raises:
        QueryError: the broker does not answer; names the topic.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    admin = admin_client(config)
    asked = admin.describe_topics(TopicCollection(wanted), request_timeout=TIMEOUT)
    settings = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in wanted], request_timeout=TIMEOUT)
    kept = {resource.name: future for resource, future in settings.items()}
    found = {}
    for name, future in asked.items():
        try:
            partitions = future.result().partitions
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            raise QueryError(f"the broker {config.servers} does not describe the topic {name}: {error.args[0].str()}") from error
        found[name] = TopicShape(partitions=len(partitions), replicas=len(partitions[0].replicas), retention_ms=_retention(kept[name]))
    return found


def _retention(future: Any) -> int | None:
    """The setting of a topic; not everyone who may read a topic may read how it is set."""
    try:
        return int(future.result()[_RETENTION].value)
    except KafkaException:
        return None
