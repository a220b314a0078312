"""Asks a broker about consumer groups."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import KafkaException

from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig

TIMEOUT = 30.0
"""The timeout (s) of requests to the broker."""


def group_assignments(config: KafkaConfig) -> list[dict[str, int]]:
    """Return how many partitions the members of each consumer group read, by topic.

    Raises:
        QueryError: the broker does not answer, or refuses.
    """
    client = admin_client(config)
    try:
        listed = client.list_consumer_groups(request_timeout=TIMEOUT).result().valid
        names = [each.group_id for each in listed]
        described = client.describe_consumer_groups(names, request_timeout=TIMEOUT) if names else {}
        groups = [future.result() for future in described.values()]
    except KafkaException as error:
        reason = error.args[0]
        message = f"the broker {config.servers} does not describe consumer groups: {reason.str()}"
        raise broker_error(message, reason) from error
    return [
        Counter(each.topic for member in group.members for each in member.assignment.topic_partitions)
        for group in groups
    ]
