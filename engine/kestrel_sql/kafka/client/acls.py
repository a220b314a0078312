"""Checks the ACLs of a query before it starts, and names the missing ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation

from kestrel_sql.errors import AccessError, QueryError
from kestrel_sql.kafka.client.admin import describe_topics
from kestrel_sql.kafka.client.config import KafkaConfig

_TIMEOUT = 20.0
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE

_NEEDED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "the user needs DESCRIBE and READ on topics that are read, WRITE on those that are written"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (
        "the user needs CREATE on the topic or the cluster, or somebody else must create the topic"
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the user needs READ on consumer groups whose names begin with kestrel-",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "the user needs WRITE and DESCRIBE on transactional ids that begin with kestrel-, or --delivery at-least-once"
    ),
}
"""The missing ACLs, by the error of the broker."""


def needed(error: KafkaError) -> str | None:
    """Return the ACLs that a user needs after a refusal; None for any other error."""
    return _NEEDED.get(error.code())


def broker_error(message: str, reason: KafkaError, *, hint: str | None = None, needs: str | None = None) -> QueryError:
    """Make the error for a broker's refusal: an AccessError where an ACL is missing.

    The hint of an AccessError is `needs`, by default the ACLs that such a refusal asks for; that of others is `hint`.
    """
    missing = needed(reason)
    return QueryError(message, hint=hint) if missing is None else AccessError(message, hint=needs or missing)


def check_acls(config: KafkaConfig, query: str, reads: Iterable[str], writes: Iterable[str]) -> None:
    """Check that a query may read and write its topics; topics that do not exist are ignored.

    Raises:
        QueryError: an ACL is missing; names the topic, and the operations that the broker allows.
    """
    wanted = {**dict.fromkeys(reads, _READ), **dict.fromkeys(writes, _WRITE)}

    def refused(name: str, reason: KafkaError) -> QueryError:
        return broker_error(_refused(query, wanted[name], name, reason.str()), reason)

    for name, described in describe_topics(config, wanted, _TIMEOUT, refused, include_authorized_operations=True):
        allowed = described.authorized_operations
        # Old brokers do not return the allowed operations.
        if allowed and wanted[name] not in allowed:
            said = f"the broker {config.servers} allows {_listed(allowed)} only"
            raise AccessError(
                _refused(query, wanted[name], name, said), hint=_NEEDED[KafkaError.TOPIC_AUTHORIZATION_FAILED]
            )


def _refused(query: str, operation: AclOperation, topic: str, said: str) -> str:
    return f"{query} may not {operation.name.lower()} the topic {topic}: {said}"


def _listed(allowed: Collection[Enum]) -> str:
    return ", ".join(sorted(operation.name for operation in allowed))
