"""The admin clients of this process: one for each configuration, kept as long as the process lives; and what they say of topics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient  # noqa: TID251 - the one place that makes one

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.kafka.client.config import KafkaConfig

_HEARD = 50
_CONFIGURED = "see the properties of --kafka-config, and the files that they name"


@dataclass(frozen=True, slots=True)
class Admin:
    """A client, and the latest errors of its connections, which no call reports."""

    client: Any
    heard: deque[Any]


def admin_client(config: KafkaConfig) -> Any:
    """The client of this process for a broker, see `admin`.

    Raises:
        QueryError: a property is refused.
    """
    return admin(config).client


def admin(config: KafkaConfig) -> Admin:
    """The client of this process for a broker, with what it heard.

    It is kept: one that nobody holds is destroyed, and its answer with it; and one that stands in the traceback of an error may be
    destroyed by the garbage collector inside a thread of librdkafka, which then aborts the process. It does not grow old: a broker that
    was away, or another one at its address, is found by it as by a new one.

    Raises:
        QueryError: a property is refused.
    """
    try:
        return _kept(config)
    except KafkaException as error:
        raise QueryError(f"the Kafka configuration is refused: {error.args[0].str()}", hint=_CONFIGURED) from error


def describe_topics(
    config: KafkaConfig,
    names: Iterable[str],
    timeout: float,
    refused: Callable[[str, KafkaError], EngineError],
    **more: Any,
) -> Iterator[tuple[str, Any]]:
    """What the broker says of topics, by name in their order; those that do not exist are left out. `timeout` is in seconds.

    Raises:
        EngineError: what `refused` makes of a topic that the broker does not describe, and of its error.
    """
    wanted = sorted(set(names))
    asked = (
        admin_client(config).describe_topics(TopicCollection(wanted), request_timeout=timeout, **more) if wanted else {}
    )
    for name, future in asked.items():
        try:
            yield name, future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise refused(name, error.args[0]) from error


@cache
def _kept(config: KafkaConfig) -> Admin:
    heard: deque[Any] = deque(maxlen=_HEARD)
    settings: dict[str, Any] = {**config.client(), "log_level": 0, "error_cb": heard.append}
    return Admin(AdminClient(settings), heard)
