"""Where the partitions of a broker begin and end, which topics there are, and the JSON in which Spark writes offsets."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.admin import admin, describe_topics
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Offsets, Position

_TIMEOUT = 20.0
_ANSWER_S = 5.0
_LOOK_S = 0.5
_MARKED_S = 0.05
_SETTLED_S = 10.0
_NONE = -1
_SPEC: Any = OffsetSpec
_MOVED = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH}
)
_REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})  # noqa: SLF001 - public constants


_EMPTY = "Failed to get metadata"
_ALL_DOWN = -187
"""What says only that something else went wrong."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the broker has it: `id` tells it from one of the same name that was there before."""

    name: str
    id: str
    partitions: int

    @property
    def positions(self) -> tuple[Position, ...]:
        """Its partitions."""
        return tuple((self.name, partition) for partition in range(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a broker does not answer; a final one does not pass by waiting."""

    message: str
    hint: str
    is_final: bool


class BrokerOffsets:
    """Asks a broker for topics and offsets.

    Every method raises QueryError, which names the broker or the topic, when there is no answer.
    """

    def __init__(self, config: KafkaConfig, timeout: float = _TIMEOUT) -> None:
        """Connect when first asked; `timeout` is in seconds."""
        self.config = config
        self._servers = config.servers
        self._timeout = timeout
        kept = admin(config)
        self._admin, self._said = kept.client, kept.heard

    def problem(self) -> Problem | None:
        """Ask whether the broker answers, and what is wrong if it does not."""
        self._said.clear()
        ends = time.monotonic() + _ANSWER_S
        while True:
            try:
                self._admin.list_topics(timeout=_LOOK_S)
            except KafkaException as error:
                self._admin.poll(0)
                said = _telling([*self._said, error.args[0]])
                if _is_refusal(said):
                    hint = "check user, password, mechanism and certificates in the Kafka configuration"
                    return Problem(
                        message=f"the broker {self._servers} refuses us: {said.str()}", hint=hint, is_final=True
                    )
                if time.monotonic() > ends:
                    hint = "is it running, is the address right, and is security.protocol that of this listener?"
                    return Problem(
                        message=f"the broker {self._servers} does not answer: {said.str()}", hint=hint, is_final=False
                    )
            else:
                return None

    def names(self) -> list[str]:
        """The names of all topics that are not the broker's own."""
        try:
            found = self._admin.list_topics(timeout=self._timeout).topics
        except KafkaException as error:
            raise self._failed(error.args[0], "its topics") from error
        return sorted(name for name in found if not name.startswith("__"))

    def topics(self, names: Iterable[str], timeout: float | None = None) -> dict[str, Topic]:
        """The topics of these names; those that do not exist are left out. `timeout` (s) is for those who ask again and again."""
        described = describe_topics(
            self.config, names, timeout or self._timeout, lambda name, reason: self._failed(reason, f"the topic {name}")
        )
        return {name: Topic(name, str(each.topic_id), len(each.partitions)) for name, each in described}

    def first(self, positions: Iterable[Position]) -> dict[Position, int]:
        """The offset of the oldest record that is kept."""
        return self._ask(positions, _SPEC.earliest())

    def ends(self, positions: Iterable[Position], timeout: float | None = None) -> dict[Position, int]:
        """The offset behind the last committed record; `timeout` (s) is for those who ask again and again."""
        return self._ask(positions, _SPEC.latest(), timeout=timeout)

    def settle(self, topics: Iterable[str], patience: float = _SETTLED_S) -> bool:
        """Wait until no transaction is open in the topics; False if one still is after so many seconds.

        A broker answers a commit before it has marked every partition: who reads at once may find a part of it missing.
        """
        positions = [position for topic in self.topics(topics).values() for position in topic.positions]
        deadline = time.monotonic() + patience
        while self.ends(positions) != self._ask(positions, _SPEC.latest(), IsolationLevel.READ_UNCOMMITTED):
            if time.monotonic() > deadline:
                return False
            time.sleep(_MARKED_S)
        return True

    def from_time(self, positions: Iterable[Position], time: int) -> dict[Position, int]:
        """The first offset whose record has at least this timestamp (ms); partitions without one are left out."""
        found = self._ask(positions, _SPEC.for_timestamp(time))
        return {position: offset for position, offset in found.items() if offset != _NONE}

    def _ask(
        self,
        positions: Iterable[Position],
        spec: Any,
        isolation: Any = IsolationLevel.READ_COMMITTED,
        timeout: float | None = None,
    ) -> dict[Position, int]:
        request = {TopicPartition(topic, partition): spec for topic, partition in positions}
        patience = timeout or self._timeout
        deadline = time.monotonic() + patience
        while True:
            answers = (
                self._admin.list_offsets(request, isolation_level=isolation, request_timeout=patience)
                if request
                else {}
            )
            found, has_moved = {}, False
            for asked, future in answers.items():
                try:
                    found[asked.topic, asked.partition] = future.result().offset
                except KafkaException as error:
                    has_moved = error.args[0].code() in _MOVED and time.monotonic() < deadline
                    if not has_moved:
                        raise self._failed(
                            error.args[0], f"partition {asked.partition} of the topic {asked.topic}"
                        ) from error
            if not has_moved:
                return found
            self._look_for_leaders()

    def _look_for_leaders(self) -> None:
        """Ask for all topics: the client goes on asking the leader that it knows for offsets, even after the broker was started again."""
        time.sleep(_MARKED_S)
        with suppress(KafkaException):
            self._admin.list_topics(timeout=_LOOK_S)

    def _failed(self, reason: KafkaError, what: str) -> QueryError:
        return QueryError(f"the broker {self._servers} gave no offsets of {what}: {reason.str()}", hint=needed(reason))


def _telling(said: Sequence[Any]) -> Any:
    """The error that says most: a refusal, else the first that tells what happened."""
    plain = (error for error in said if error.code() != _ALL_DOWN and not error.str().startswith(_EMPTY))
    return next((error for error in said if _is_refusal(error)), next(plain, said[-1]))


def _is_refusal(error: Any) -> bool:
    return error.code() in _REFUSALS or "certificate verify failed" in error.str()


def to_json(offsets: Offsets) -> str:
    """Write offsets as Spark's Kafka source does."""
    return json.dumps(to_members(offsets), sort_keys=True)


def to_members(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets as an object of topics, each an object of partitions."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), offset in sorted(offsets.items()):
        found[topic][str(partition)] = offset
    return dict(found)


def from_members(members: Mapping[str, Mapping[str, int]]) -> dict[Position, int]:
    """Read offsets that are an object of topics, each an object of partitions."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in members.items()
        for partition, offset in partitions.items()
    }
