"""Takes over what the queries of a ksqlDB service left: how far they had read, and their state."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

import msgspec
from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.run.prepare_query import Prepared
from kestrel_sql.kafka.run.taken_state import Place, is_written, write_taken
from kestrel_sql.kafka.takeover.broker import committed_of, internal_topics, is_at_least_once, read_left
from kestrel_sql.kafka.takeover.history import computed
from kestrel_sql.kafka.takeover.internal import Serde
from kestrel_sql.kafka.takeover.left import CHANGELOG, Committed, Left
from kestrel_sql.kafka.takeover.members import remove_members
from kestrel_sql.kafka.takeover.take_over import Taken, has_final_windows, take_over

_TIMEOUT_S = 20.0
_COME_BACK_S = 6.0
"""So long after they were removed members that live have come back: Kafka Streams sends a heartbeat every 3 s."""


def check_history(
    query_id: str, first: Mapping[Position, int], committed: Mapping[Position, int], why: QueryError
) -> None:
    """Check that a query with state can read again what ksqlDB had read.

    `first` are the low watermarks, `why` says why its state is not taken over.

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
            f"{query_id} cannot be taken over: {why.message}; and records that its state counts are gone: "
            f"{'; '.join(lost)}",
            hint=why.hint or "drop it in ksqlDB and create it here, where it begins with the records that are left",
        )


def check_rebuild(
    query_id: str, first: Mapping[Position, int], committed: Mapping[Position, int], why: QueryError
) -> None:
    """Check that a query with state, which begins again, repeats nothing; the arguments are as in `check_history`.

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
            f"{query_id} cannot be taken over: {why.message}; and ksqlDB had read {', '.join(read)}",
            hint="--rebuild starts it with empty state over all records, and its results are written again; with"
            " --sink-from committed only those of records that ksqlDB had not read are",
        )


class StillRunsError(Exception):
    """ksqlDB still runs a query, or has ended so shortly ago that the broker counts it as running: the query waits."""


class Adoption(msgspec.Struct, frozen=True):
    """Where the queries of a ksqlDB service begin; `say` tells a user.

    `rebuilds` says that queries whose state cannot be taken over may begin anew, and write again what ksqlDB has
    written; with `sink_from` what comes of records before these offsets is left out, of those that ksqlDB committed if
    it is empty. `removes_members` says that the broker is to remove the members that ksqlDB left in its groups.
    """

    config: KafkaConfig
    service_id: str
    say: Callable[[str], None]
    rebuilds: bool = False
    sink_from: Mapping[Position, int] | None = None
    removes_members: bool = False
    _removed: dict[str, float] = {}
    """When (monotonic, s) the members of a group were removed, which happens once."""

    def begun(self, prepared: Prepared, offsets: BrokerOffsets, sink: str | None, place: Place) -> Prepared:
        """Return a query that goes on from ksqlDB's offsets and state, or begins anew; `place` is where state goes.

        Raises:
            StillRunsError: the group of the query has members, or a transaction is open in the topic `sink`.
            QueryError: the state of a query cannot be taken over, and it may not begin anew or has lost records that
                ksqlDB had read, or the broker refuses.
        """
        stored = prepared.stored
        group = self._group(stored.id)
        self._check_idle(group, stored.id, place)
        if sink is not None:
            _check_closed([sink], stored.id, offsets)
        committed = self._committed(group, list(stored.start))
        if not prepared.pipeline.graph.levels:
            if committed:
                self.say(f"{stored.id} goes on from the offsets that ksqlDB committed")
            return replace(prepared, stored=replace(stored, start={**stored.start, **committed}))
        first = offsets.first(stored.start)
        if not any(committed.values()) and not self.sink_from:
            self.say(f"{stored.id} had read nothing: it reads {', '.join(stored.sources)} from the beginning")
            return replace(prepared, stored=replace(stored, start=first))
        left = self._left(prepared, offsets, group)
        read = {position: left.committed[position].offset for position in committed}
        stored = replace(stored, start={**stored.start, **read})
        told = ""
        if not is_written(place.folder, left):
            try:
                taken = _taken(prepared, left, place.serde)
            except QueryError as why:
                behind = self._behind(prepared, left, first, committed, why)
                return self._anew(prepared, left, offsets, first, behind, place)
            write_taken(self.config, stored, prepared.pipeline, taken, group, place)
            told = f": {taken}"
        self.say(f"{stored.id} goes on with the state that ksqlDB left{told}{_twice(left, offsets, read)}")
        return replace(prepared, stored=stored)

    def forecast(self, prepared: Prepared, offsets: BrokerOffsets, serde: Serde) -> str:
        """Say what `begun` would do now; nothing changes.

        Raises:
            QueryError: it would refuse.
        """
        stored = prepared.stored
        group = self._group(stored.id)
        committed = self._committed(group, list(stored.start))
        places = ", ".join(f"{topic}-{number} at {at}" for (topic, number), at in sorted(committed.items()))
        if not any(committed.values()) and not self.sink_from:
            return "has read nothing in ksqlDB, and begins as a new query"
        if not prepared.pipeline.graph.levels:
            return f"has no state, and goes on at {places}"
        left = self._left(prepared, offsets, group)
        try:
            taken = _taken(prepared, left, serde)
        except QueryError as why:
            behind = self._behind(prepared, left, offsets.first(stored.start), committed, why)
            return f"begins anew{_sink_from(behind)}: {why.message}"
        return f"goes on at {places} with {taken}{_twice(left, offsets, committed)}"

    def _group(self, query_id: str) -> str:
        """The consumer group of a query in ksqlDB."""
        return f"_confluent-ksql-{self.service_id}query_{query_id}"

    def _left(self, prepared: Prepared, offsets: BrokerOffsets, group: str) -> Left:
        """Read what ksqlDB left of a query with state."""
        pipeline, internal = prepared.pipeline, internal_topics(offsets, group)
        _check_closed({topic for topic, _ in internal}, prepared.stored.id, offsets)
        read = [*prepared.stored.start, *(each for each in internal if not each[0].endswith(CHANGELOG))]
        is_final = has_final_windows(pipeline.graph)
        committed = self._asked(group, lambda: committed_of(self.config, group, read, is_final=is_final))
        (sink,) = pipeline.sinks
        return read_left(offsets, group, committed, internal, sink.topic)

    def _behind(
        self,
        prepared: Prepared,
        left: Left,
        first: Mapping[Position, int],
        committed: Mapping[Position, int],
        why: QueryError,
    ) -> Mapping[Position, int] | None:
        """Check that a query may begin with empty state, and return from where on its results go into the sink.

        None stands for all of them.

        Raises:
            QueryError: something is lost by it, or it may not.
        """
        query = prepared.stored.id
        check_history(query, first, committed, why)
        if not self.rebuilds:
            check_rebuild(query, first, committed, why)
        if self.sink_from is None:
            return None
        if self.sink_from:
            missing = [f"{topic}-{number}" for topic, number in sorted(prepared.stored.start.keys() - self.sink_from)]
            if missing:
                raise QueryError(
                    f"{query} cannot be taken over: {why.message}; and --sink-from has no offset of"
                    f" {', '.join(missing)}",
                    hint="give one for each partition of its sources, or --sink-from committed",
                )
            return {position: self.sink_from[position] for position in prepared.stored.start}
        unread = [topic for topic in left.records if not topic.endswith(CHANGELOG) and left.unread(topic)]
        unwritten = (
            f"results of records of {unread[0]}, which are in flight"
            if unread
            else "windows that have closed last"
            if has_final_windows(prepared.pipeline.graph)
            else ""
        )
        if unwritten:
            raise QueryError(
                f"{query} cannot be taken over: {why.message}; and --sink-from committed would leave out {unwritten}",
                hint="give --sink-from smaller offsets of its sources: what stands behind them is written again",
            )
        return {position: committed.get(position, 0) for position in prepared.stored.start}

    def _anew(
        self,
        prepared: Prepared,
        left: Left,
        offsets: BrokerOffsets,
        first: Mapping[Position, int],
        behind: Mapping[Position, int] | None,
        place: Place,
    ) -> Prepared:
        """Let a query begin with empty state, or with that of the records before those whose results are written."""
        stored, pipeline = prepared.stored, prepared.pipeline
        if behind is None:
            self.say(f"{stored.id} has state: it reads {', '.join(stored.sources)} from the beginning and writes again")
            return replace(prepared, stored=replace(stored, start=first))
        self.say(f"{stored.id} has state, which is computed anew")
        taken, count = computed(self.config, pipeline.graph, max(pipeline.tasks(stored.partitions)), first, behind)
        stored = replace(stored, start={**stored.start, **behind})
        write_taken(self.config, stored, pipeline, taken, self._group(stored.id), place)
        self.say(
            f"{stored.id} goes on with a state of {count} records{_sink_from(behind)}{_twice(left, offsets, behind)}"
        )
        return replace(prepared, stored=stored)

    def _check_idle(self, group: str, query_id: str, place: Place) -> None:
        has_members, since = self._has_members(group), self._removed.get(group)
        waits = f"{query_id} waits until the group {group} has no members, and then starts by itself: "
        if has_members and since is not None:
            raise StillRunsError(f"{waits}ksqlDB runs it still, as they came back when they were removed")
        if has_members and not self.removes_members:
            raise StillRunsError(
                f"{waits}ksqlDB runs it still, or has ended within the last 45 s, for which --remove-members does not"
                " wait"
            )
        if has_members:
            try:
                remove_members(place.spark(), self.config, group)
            except QueryError as error:
                # They may have left meanwhile.
                if self._has_members(group):
                    raise StillRunsError(f"{waits}{error.message}") from error
            finally:
                self._removed[group] = time.monotonic()
        if time.monotonic() < self._removed.get(group, -_COME_BACK_S) + _COME_BACK_S:
            raise StillRunsError(
                f"{query_id} waits {_COME_BACK_S:g} s to see that no member of the group {group} comes back after the"
                " broker has removed them"
            )

    def _has_members(self, group: str) -> bool:
        try:
            found = admin_client(self.config).describe_consumer_groups([group], request_timeout=_TIMEOUT_S)
            return bool(found[group].result().members)
        except KafkaException as error:
            raise self._failed(group, error) from error

    def _committed(self, group: str, positions: list[Position]) -> dict[Position, int]:
        found = self._asked(group, lambda: committed_of(self.config, group, positions))
        return {position: each.offset for position, each in found.items()}

    def _asked(self, group: str, ask: Callable[[], dict[Position, Committed]]) -> dict[Position, Committed]:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise StillRunsError(f"{group} waits until a transaction with its offsets ends") from error
            raise self._failed(group, error) from error

    def _failed(self, group: str, error: KafkaException) -> QueryError:
        reason = error.args[0]
        return broker_error(f"the offsets of the group {group} cannot be read: {reason.str()}", reason)


def _taken(prepared: Prepared, left: Left, serde: Serde) -> Taken:
    pipeline = prepared.pipeline
    return take_over(pipeline.graph, max(pipeline.tasks(prepared.stored.partitions)), left, serde)


def _sink_from(behind: Mapping[Position, int] | None) -> str:
    """From where on results go into the sink, for people."""
    if behind is None:
        return ""
    return (
        f" and writes from {', '.join(f'{topic}-{number} at {at}' for (topic, number), at in sorted(behind.items()))}"
    )


def _twice(left: Left, offsets: BrokerOffsets, read: Mapping[Position, int]) -> str:
    """How many records count twice at most: without transactions the state may be ahead of the offsets."""
    written = offsets.written([(each.topic, each.partition) for records in left.records.values() for each in records])
    if not is_at_least_once(left, written):
        return ""
    ends = offsets.ends(read)
    twice = sum(max(ends[position] - offset, 0) for position, offset in read.items())
    return f"; it ran at least once, so that up to {twice} records may count twice"


def _check_closed(topics: Collection[str], query_id: str, offsets: BrokerOffsets) -> None:
    """Check that no transaction of a killed ksqlDB is open in topics; readers would wait for it."""
    positions = [position for topic in offsets.topics(topics).values() for position in topic.positions]
    ends, written = offsets.ends(positions), offsets.written(positions)
    if ends != written:
        topic = next(position[0] for position, end in written.items() if ends.get(position) != end)
        raise StillRunsError(
            f"{query_id} waits until no transaction is open in the topic {topic}, and then starts by itself"
        )
