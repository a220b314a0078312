"""Asks a broker for topics and offsets, and reads and writes offsets in Spark's JSON."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from confluent_kafka import OFFSET_INVALID, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    ClusterMetadata,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.admin import admin, describe_topics
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Offsets, Position

_TIMEOUT = 20.0
_ANSWER_S = 5.0
_LOOK_S = 0.5
_MARKED_S = 0.05
_SETTLED_S = 10.0
_SPEC: Any = OffsetSpec
_FIRST_S = 1.0
"""How long an answer may take before other leaders are looked for; twice as long each time."""
_MOVED = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._TIMED_OUT,  # noqa: SLF001 - its public name
    }
)
"""Errors after which another node may lead the partition, or may know its end only now."""
_REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})  # noqa: SLF001 - public constants


_EMPTY = "Failed to get metadata"
_ALL_DOWN = -187
"""Errors that only say that there was another error."""


class Topic(msgspec.Struct, frozen=True):
    """A topic of a broker; `id` distinguishes it from an earlier topic with the same name."""

    name: str
    id: str
    partitions: int

    @property
    def positions(self) -> tuple[Position, ...]:
        """The partitions of the topic."""
        return tuple((self.name, partition) for partition in range(self.partitions))


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a broker does not answer; waiting does not help if the problem is final."""

    message: str
    hint: str
    is_final: bool


class BrokerOffsets:
    """Asks a broker for topics and offsets.

    Every method but `problem` raises QueryError, which names the broker or the topic, if the broker does not answer.
    """

    def __init__(self, config: KafkaConfig, timeout: float = _TIMEOUT) -> None:
        """Set the broker, without connecting; `timeout` is in seconds."""
        self.config = config
        self._servers = config.servers
        self._timeout = timeout
        cached = admin(config)
        self._admin, self._said = cached.client, cached.heard

    def problem(self) -> Problem | None:
        """Check whether the broker answers; return the problem, or None if it does."""
        self._said.clear()
        ends = time.monotonic() + _ANSWER_S
        while True:
            try:
                self._admin.list_topics(timeout=_LOOK_S)
            except KafkaException as error:
                self._admin.poll(0)
                said = _most_specific([*self._said, error.args[0]])
                if _is_refusal(said):
                    hint = "check user, password, mechanism and certificates in the Kafka configuration"
                    return Problem(
                        message=f"the broker {self._servers} refuses access: {said.str()}", hint=hint, is_final=True
                    )
                if time.monotonic() > ends:
                    hint = (
                        "check that it runs, that the address is right, and that security.protocol is that of this"
                        " listener"
                    )
                    return Problem(
                        message=f"the broker {self._servers} does not answer: {said.str()}", hint=hint, is_final=False
                    )
            else:
                return None

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._cluster().topics)

    def cluster_id(self) -> str | None:
        """Return the id of the cluster; None from a broker that does not tell it."""
        found: str | None = self._cluster().cluster_id
        return found

    def _cluster(self) -> ClusterMetadata:
        try:
            return self._admin.list_topics(timeout=self._timeout)
        except KafkaException as error:
            raise self._failed(error.args[0], "its topics") from error

    def topics(self, names: Iterable[str], timeout: float | None = None) -> dict[str, Topic]:
        """Return the topics with these names that exist; `timeout` (s) replaces that of the object."""
        described = describe_topics(
            self.config, names, timeout or self._timeout, lambda name, reason: self._failed(reason, f"the topic {name}")
        )
        return {name: Topic(name, str(each.topic_id), len(each.partitions)) for name, each in described}

    def first(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Return the offset of the oldest record of each partition."""
        return self._ask(positions, _SPEC.earliest())

    def ends(self, positions: Iterable[Position], timeout: float | None = None) -> dict[Position, int]:
        """Return the offset after the last committed record of each partition.

        `timeout` (s) replaces that of the object.
        """
        return self._ask(positions, _SPEC.latest(), timeout=timeout)

    def written(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Return the offset after the last record of each partition, in an open transaction or not."""
        return self._ask(positions, _SPEC.latest(), IsolationLevel.READ_UNCOMMITTED)

    def settle(self, topics: Iterable[str], patience: float = _SETTLED_S) -> bool:
        """Wait until no transaction is open in the topics; return False if one still is after `patience` seconds.

        A broker answers a commit before it has marked every partition, so a consumer may see only a part of it at
        first.
        """
        positions = [position for topic in self.topics(topics).values() for position in topic.positions]
        deadline = time.monotonic() + patience
        while self.ends(positions) != self.written(positions):
            if time.monotonic() > deadline:
                return False
            time.sleep(_MARKED_S)
        return True

    def _ask(
        self,
        positions: Iterable[Position],
        spec: OffsetSpec,
        isolation: object = IsolationLevel.READ_COMMITTED,
        timeout: float | None = None,
    ) -> dict[Position, int]:
        request = {TopicPartition(topic, partition): spec for topic, partition in positions}
        deadline = time.monotonic() + (timeout or self._timeout)
        patience = _FIRST_S
        while True:
            left = max(deadline - time.monotonic(), _MARKED_S)
            answers = (
                self._admin.list_offsets(request, isolation_level=isolation, request_timeout=min(patience, left))
                if request
                else {}
            )
            found, has_moved = {}, False
            for asked, future in answers.items():
                try:
                    found[asked.topic, asked.partition] = _offset(future.result())
                except KafkaException as error:
                    if error.args[0].code() not in _MOVED or time.monotonic() >= deadline:
                        raise self._failed(
                            error.args[0], f"partition {asked.partition} of the topic {asked.topic}"
                        ) from error
                    has_moved = True
            if not has_moved:
                return found
            patience *= 2
            self._refresh_leaders()

    def _refresh_leaders(self) -> None:
        """List topics to refresh the leaders of partitions.

        The client asks the old leader for offsets, even after a restart of the broker.
        """
        time.sleep(_MARKED_S)
        with suppress(KafkaException):
            self._admin.list_topics(timeout=_LOOK_S)

    def _failed(self, reason: KafkaError, what: str) -> QueryError:
        return broker_error(f"the broker {self._servers} returned no offsets of {what}: {reason.str()}", reason)


def committed_offsets(consumer: Consumer, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
    """Return the offsets that the group of a consumer has committed; `timeout` is in seconds.

    Raises:
        KafkaException: the broker does not answer in time, or refuses one of the partitions.
    """
    found: list[TopicPartition] = consumer.committed(list(partitions), timeout)
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return found


def _offset(answer: ListOffsetsResultInfo) -> int:
    """The offset of an answer.

    If a node is gone, the client answers at the end of the request without an error, and without an offset.

    Raises:
        KafkaException: there is no offset.
    """
    offset: int = answer.offset
    if offset == OFFSET_INVALID:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - its public name
    return offset


def _most_specific(said: Sequence[KafkaError]) -> KafkaError:
    """The most specific error: a refusal, or else the first one that says what happened."""
    plain = (error for error in said if error.code() != _ALL_DOWN and not error.str().startswith(_EMPTY))
    return next((error for error in said if _is_refusal(error)), next(plain, said[-1]))


def _is_refusal(error: KafkaError) -> bool:
    return error.code() in _REFUSALS or "certificate verify failed" in error.str()


def to_json(offsets: Offsets) -> str:
    """Return offsets as JSON text in the form of Spark's Kafka source."""
    return json.dumps(to_members(offsets), sort_keys=True)


def to_members(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return offsets by topic, then by partition."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), offset in sorted(offsets.items()):
        found[topic][str(partition)] = offset
    return dict(found)


def from_members(members: Mapping[str, Mapping[str, int]]) -> dict[Position, int]:
    """Read offsets by topic, then by partition."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in members.items()
        for partition, offset in partitions.items()
    }
