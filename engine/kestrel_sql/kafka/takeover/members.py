"""Has the broker remove the members of a consumer group, by Kafka's client for Java: librdkafka has no such call."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig

_TIMEOUT_MS = 20_000
_PREFIX = "kafka."


def remove_members(spark: SparkSession, config: KafkaConfig, group: str) -> None:
    """Have all members of a group removed; those that live come back with their next heartbeat.

    Raises:
        QueryError: the broker refuses.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - the one way to its JVM
    settings = jvm.java.util.HashMap()
    for name, value in config.spark().items():
        settings.put(name.removeprefix(_PREFIX), value)
    client = jvm.org.apache.kafka.clients.admin
    wait = jvm.java.time.Duration.ofMillis(_TIMEOUT_MS)
    try:
        admin = client.AdminClient.create(settings)
        try:
            everybody = client.RemoveMembersFromConsumerGroupOptions().timeoutMs(_TIMEOUT_MS)
            admin.removeMembersFromConsumerGroup(group, everybody).all().get()
        finally:
            admin.close(wait)
    except Py4JJavaError as error:
        reason = error.java_exception
        while reason.getCause() is not None:
            reason = reason.getCause()
        raise QueryError(f"the members of the group {group} cannot be removed: {reason.getMessage()}") from error
