"""Taking over what ksqlDB left: the commands of its topic, and how far its queries had read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.importer.report import Outcome, Report, commands_report
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets, committed_offsets
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


@dataclass(frozen=True, slots=True)
class Adoption:
    """Where the queries of a ksqlDB service begin; `say` tells a user."""

    config: KafkaConfig
    service_id: str
    say: Callable[[str], None]

    def begun(self, prepared: Prepared, offsets: BrokerOffsets) -> Prepared:
        """Return a query that goes on from ksqlDB's offsets if it has no state, else begins anew.

        Raises:
            QueryError: ksqlDB still runs it, or the broker refuses.
        """
        stored = prepared.stored
        group = f"_confluent-ksql-{self.service_id}query_{stored.id}"
        self._check_idle(group, stored.id)
        if prepared.pipeline.group.levels:
            self.say(f"{stored.id} has state: it reads {', '.join(stored.sources)} from the beginning and writes again")
            return replace(prepared, stored=replace(stored, start=offsets.first(stored.start)))
        committed = self._committed(group, list(stored.start))
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
            raise QueryError(f"ksqlDB still runs {query_id}: the group {group} has members", hint="stop ksqlDB first")

    def _committed(self, group: str, positions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        settings = self.config.client(group_id=group, enable_auto_commit=False)
        try:
            with closing(Consumer(settings)) as consumer:
                found = committed_offsets(consumer, [TopicPartition(*position) for position in positions], _TIMEOUT_S)
        except KafkaException as error:
            raise self._failed(group, error) from error
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _failed(self, group: str, error: KafkaException) -> QueryError:
        reason = error.args[0]
        return broker_error(f"the offsets of the group {group} cannot be read: {reason.str()}", reason)
