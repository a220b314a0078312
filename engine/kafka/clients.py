"""The admin clients of this process: one for each configuration, kept as long as the process lives."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient  # noqa: TID251 - the one place that makes one

from engine.errors import QueryError
from engine.kafka.config import KafkaConfig

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
        return _kept(tuple(sorted(config.client().items())))
    except KafkaException as error:
        raise QueryError(f"the Kafka configuration is refused: {error.args[0].str()}", hint=_CONFIGURED) from error


@cache
def _kept(properties: tuple[tuple[str, Any], ...]) -> Admin:
    heard: deque[Any] = deque(maxlen=_HEARD)
    settings: dict[str, Any] = {**dict(properties), "log_level": 0, "error_cb": heard.append}
    return Admin(AdminClient(settings), heard)
