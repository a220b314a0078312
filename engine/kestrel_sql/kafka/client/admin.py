"""The admin clients of this process, one for each configuration, which are never closed; and descriptions of topics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription  # noqa: TID251 - the only module that makes one

from kestrel_sql.errors import EngineError, KafkaConfigError
from kestrel_sql.kafka.client.config import KafkaConfig

_HEARD = 50
_LOOK_S = 1.0


class Admin(msgspec.Struct, frozen=True):
    """A client, and the latest errors of its connections, which calls do not report."""

    client: AdminClient
    heard: deque[KafkaError]


def admin_client(config: KafkaConfig) -> AdminClient:
    """Return the client of this process for a broker (see `admin`).

    Raises:
        KafkaConfigError: librdkafka refuses a property.
    """
    return admin(config).client


def admin(config: KafkaConfig) -> Admin:
    """Return the client of this process for a broker, with the errors of its connections.

    The client is cached for two reasons: a client without a reference is destroyed together with its answers; and a
    client in the traceback of an error may be destroyed by the garbage collector in a thread of librdkafka, which
    aborts the process. A cached client finds a broker again after an outage, or a new one at its address, as a new
    client does.

    Raises:
        KafkaConfigError: librdkafka refuses a property.
    """
    try:
        return _cached(config)
    except KafkaException as error:
        raise KafkaConfigError(error.args[0].str()) from error


def describe_topics(
    config: KafkaConfig,
    names: Iterable[str],
    timeout: float,
    refused: Callable[[str, KafkaError], EngineError],
    **more: bool,
) -> Iterator[tuple[str, TopicDescription]]:
    """Describe topics, sorted by name; those that do not exist are left out. `timeout` is in seconds.

    Raises:
        EngineError: the result of `refused` for a topic that the broker does not describe, and for its error.
    """
    wanted, client = sorted(set(names)), admin_client(config)
    asked = client.describe_topics(TopicCollection(wanted), request_timeout=timeout, **more) if wanted else {}
    for name, future in asked.items():
        try:
            yield name, future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:  # noqa: SLF001 - its public name
                _find_controller(client, timeout)
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise refused(name, error.args[0]) from error


def _find_controller(client: AdminClient, timeout: float) -> None:
    """Learn from any node of a broker which one to ask next time; the client waits for one that is gone for minutes."""
    with suppress(KafkaException):
        client.list_topics(timeout=min(timeout, _LOOK_S))


@cache
def _cached(config: KafkaConfig) -> Admin:
    heard: deque[KafkaError] = deque(maxlen=_HEARD)
    # A client that connects on demand spins while a request waits for a broker that is gone: half of a core.
    always = {"log_level": 0, "error_cb": heard.append, "enable.sparse.connections": False}
    settings: dict[str, Any] = {**config.client(), **always}
    return Admin(AdminClient(settings), heard)
