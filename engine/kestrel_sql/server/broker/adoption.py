"""Taking over what ksqlDB left: the commands of its topic, and how far its queries had read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.importer.entries import Outcome
from kestrel_sql.importer.report import Report, commands_report
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets, committed_offsets
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.run.prepare_query import Prepared
from kestrel_sql.server.broker.command_topic import Command

_TIMEOUT_S = 20.0


def check_adoption(commands: Sequence[Command], functions: Registry) -> None:
    """Plan every command of a topic.

    Raises:
        EngineError: some cannot run; lists all of them.
    """
    report = commands_report([command.record for command in commands], functions)
    refused = tuple(entry for entry in report.statements if entry.outcome is Outcome.REFUSED)
    if refused:
        raise EngineError(
            f"{len(refused)} of {len(commands)} commands cannot run here:\n{Report(refused)}",
            hint="change or drop these statements in ksqlDB first",
        )


def check_history(query_id: str, first: Mapping[Position, int], committed: Mapping[Position, int]) -> None:
    """Check that a query with state can read again what ksqlDB had read; `first` are the low watermarks.

    Raises:
        QueryError: records that count in the state are gone.
    """
    lost = [
        f"{topic}-{partition} begins at {low}, and ksqlDB had read to {committed[topic, partition]}"
        for (topic, partition), low in sorted(first.items())
        if low > 0 and committed.get((topic, partition), 0) > 0
    ]
    if lost:
        raise QueryError(
            f"{query_id} cannot be taken over, because its state counts records that are gone: {'; '.join(lost)}",
            hint="drop it in ksqlDB and create it here, where it begins with the records that are left",
        )


def check_rebuild(query_id: str, first: Mapping[Position, int], committed: Mapping[Position, int]) -> None:
    """Check that a query with state, which begins again, repeats nothing; `first` are the low watermarks.

    Raises:
        QueryError: ksqlDB had read records.
    """
    read = [
        f"{topic}-{partition} to {committed[topic, partition]}"
        for (topic, partition), low in sorted(first.items())
        if committed.get((topic, partition), 0) > low
    ]
    if read:
        raise QueryError(
            f"{query_id} has state, which is not taken over, and ksqlDB had read {', '.join(read)}",
            hint="--rebuild starts it with empty state over all records, and its results are written again",
        )


class StillRunsError(Exception):
    """ksqlDB still runs a query, or has ended so shortly ago that the broker counts it as running: the query waits."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """Where the queries of a ksqlDB service begin; `say` tells a user.

    `rebuilds` says that queries with state may begin anew, and write again what ksqlDB has written.
    """

    config: KafkaConfig
    service_id: str
    say: Callable[[str], None]
    rebuilds: bool = False

    def begun(self, prepared: Prepared, offsets: BrokerOffsets, sink: str | None) -> Prepared:
        """Return a query that goes on from ksqlDB's offsets if it has no state, else begins anew.

        Raises:
            StillRunsError: the group of the query has members, or a transaction is open in the topic `sink`.
            QueryError: a query with state has lost records that ksqlDB had read, or may not begin anew, or the broker
                refuses.
        """
        stored = prepared.stored
        group = f"_confluent-ksql-{self.service_id}query_{stored.id}"
        self._check_idle(group, stored.id)
        if sink is not None:
            _check_closed(sink, stored.id, offsets)
        committed = self._committed(group, list(stored.start))
        if prepared.pipeline.graph.levels:
            first = offsets.first(stored.start)
            check_history(stored.id, first, committed)
            if not self.rebuilds:
                check_rebuild(stored.id, first, committed)
            self.say(f"{stored.id} has state: it reads {', '.join(stored.sources)} from the beginning and writes again")
            return replace(prepared, stored=replace(stored, start=first))
        if committed:
            self.say(f"{stored.id} goes on from the offsets that ksqlDB committed")
        return replace(prepared, stored=replace(stored, start={**stored.start, **committed}))

    def _check_idle(self, group: str, query_id: str) -> None:
        try:
            found = admin_client(self.config).describe_consumer_groups([group], request_timeout=_TIMEOUT_S)
            members = found[group].result().members
        except KafkaException as error:
            raise self._failed(group, error) from error
        if members:
            raise StillRunsError(
                f"{query_id} waits until the group {group} has no members, and then starts by itself: ksqlDB runs it"
                " still, or has ended within the last 45 s"
            )

    def _committed(self, group: str, positions: list[Position]) -> dict[Position, int]:
        settings = self.config.client(group_id=group, enable_auto_commit=False)
        try:
            with closing(Consumer(settings)) as consumer:
                found = committed_offsets(consumer, [TopicPartition(*position) for position in positions], _TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise StillRunsError(f"{group} waits until a transaction with its offsets ends") from error
            raise self._failed(group, error) from error
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _failed(self, group: str, error: KafkaException) -> QueryError:
        reason = error.args[0]
        return broker_error(f"the offsets of the group {group} cannot be read: {reason.str()}", reason)


def _check_closed(sink: str, query_id: str, offsets: BrokerOffsets) -> None:
    """Check that no transaction of a killed ksqlDB is open in a sink; readers would wait for it."""
    positions = [position for topic in offsets.topics([sink]).values() for position in topic.positions]
    if offsets.ends(positions) != offsets.written(positions):
        raise StillRunsError(
            f"{query_id} waits until no transaction is open in the topic {sink}, and then starts by itself"
        )
