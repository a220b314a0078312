"""Reads the sinks of two systems side by side and compares them until it is told to stop, or both have caught up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from threading import Event

import msgspec

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.shadow.causes import queries_behind
from kestrel_sql.kafka.shadow.matching import SIDES, Difference, Matcher, StreamMatcher, TableMatcher
from kestrel_sql.kafka.shadow.side import Side, open_side
from kestrel_sql.kafka.shadow.written import Reader
from kestrel_sql.plan.steps.joins import StreamStreamJoinV1
from kestrel_sql.plan.steps.streams import StreamSelectKeyV1, StreamSelectKeyV2
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import SourceKind

_MERGING = (StreamSelectKeyV1, StreamSelectKeyV2, StreamStreamJoinV1)
"""Steps that give a key records of several partitions or topics."""

_LOOK_S = 1.0
_WAIT_S = 0.05
_AHEAD = 50_000
"""How many records one side may be ahead before it waits for the other one."""


class Sink(msgspec.Struct, frozen=True, kw_only=True):
    """A sink and its topic on each side.

    `by_time` says whether timestamps and headers are those of certain inputs: a result of tables has those of one of
    the changes that were taken together. `by_order` says whether the records of a key come in a certain order.
    """

    source: Source
    topics: tuple[str, str]
    by_time: bool = True
    by_order: bool = True

    @staticmethod
    def of(session: Session, source: Source, topics: tuple[str, str]) -> Sink:
        """Make a sink of a session's queries."""
        if source.kind is SourceKind.STREAM:
            return Sink(source=source, topics=topics, by_order=_is_ordered(session, source.name))
        plans = [query.plan for query in session.queries.values() if query.plan.sink == source.name]
        reads = {session.catalog.sources[name].kind for plan in plans for name in plan.sources}
        return Sink(source=source, topics=topics, by_time=SourceKind.TABLE not in reads)

    @property
    def is_table(self) -> bool:
        """Whether the last value of each key counts."""
        return self.source.kind is SourceKind.TABLE


def _is_ordered(session: Session, name: str) -> bool:
    """Whether the records of a key come from one partition, and one after the other."""
    plans = [query.plan for query in queries_behind(session, name).values()]
    is_merged = any(isinstance(step, _MERGING) for plan in plans for step in plan.physical_plan.steps())
    return not is_merged and len({plan.sink for plan in plans}) == len(plans)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the comparison is: records that were read, that are not yet, that were equal, that wait for an answer."""

    read: tuple[int, ...]
    lag: tuple[int | None, ...]
    matched: int
    waiting: tuple[int, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared: `offsets` are those on each side up to which all is."""

    progress: Progress
    keys: Mapping[str, int]
    """How many keys of each table have been compared, by its name."""
    offsets: tuple[Mapping[Position, int], ...]


class Shadow(msgspec.Struct, kw_only=True):
    """Compares sinks. `report` and `show` are told what differs and, each second, how far it is.

    `stop` lets it finish what it has begun: it waits at most `patience` (s) for what one side has not written yet.
    """

    sinks: Sequence[Sink]
    configs: tuple[KafkaConfig, KafkaConfig]
    registries: tuple[SchemaRegistry, SchemaRegistry]
    patience: float
    until_caught_up: bool
    report: Callable[[Difference], None]
    show: Callable[[Progress], None]
    stop: Event
    _sides: list[Side] = []
    _matchers: list[Matcher] = []

    def run(self) -> Verdict:
        """Compare; KeyboardInterrupt ends it at once.

        Raises:
            UsageError: a topic does not exist.
            EngineError: a broker does not answer.
        """
        with ExitStack() as stack:
            for number, name in enumerate(SIDES):
                topics = [sink.topics[number] for sink in self.sinks]
                self._sides.append(stack.enter_context(open_side(name, self.configs[number], topics)))
            for sink in self.sinks:
                self._matchers.append(self._matcher(sink))
                stack.callback(self._matchers[-1].close)
            with suppress(KeyboardInterrupt):
                self._compare()
            for matcher in self._matchers:
                matcher.end()
            return self._verdict()

    def _matcher(self, sink: Sink) -> Matcher:
        left, right = (Reader.of(at, sink.source, sink.topics[at], self.registries[at]) for at in (0, 1))
        counts = {side.topics[topic] for side, topic in zip(self._sides, sink.topics, strict=True)}
        return (TableMatcher if sink.is_table else StreamMatcher)(
            sink=sink.source,
            readers=(left, right),
            report=self.report,
            patience=self.patience,
            by_time=sink.by_time,
            by_order=sink.by_order,
            by_place=len(counts) == 1 and left.has_plain_keys,
        )

    def _compare(self) -> None:
        by_topic = [
            {sink.topics[at]: matcher for sink, matcher in zip(self.sinks, self._matchers, strict=True)}
            for at in (0, 1)
        ]
        cut = time.monotonic() if self.until_caught_up else None
        passed, look = None, 0.0
        while True:
            is_idle = True
            for at in self._not_ahead():
                messages, arrived = self._sides[at].read()
                for message in messages:
                    matcher = by_topic[at][message.topic()]
                    matcher.take(matcher.readers[at].written(message, arrived))
                is_idle = is_idle and not messages
            now = time.monotonic()
            if now >= look:
                look = now + _LOOK_S
                reached = [side.reached() for side in self._sides]
                for matcher in self._matchers:
                    matcher.judge(reached, now)
                self.show(self._progress())
                if cut is None and self.stop.is_set():
                    cut = now
                if cut is not None and passed is None and min(reached) >= cut:
                    passed = now
            if passed is not None and not any(matcher.waits_since(passed) for matcher in self._matchers):
                return
            if is_idle:
                time.sleep(_WAIT_S)

    def _not_ahead(self) -> list[int]:
        """The sides that are to be read."""
        is_ahead = [sum(matcher.waiting[at] for matcher in self._matchers) > _AHEAD for at in (0, 1)]
        return [at for at in (0, 1) if not is_ahead[at] or all(is_ahead)]

    def _progress(self) -> Progress:
        return Progress(
            read=tuple(side.count for side in self._sides),
            lag=tuple(side.lag() for side in self._sides),
            matched=sum(matcher.matched for matcher in self._matchers),
            waiting=tuple(sum(matcher.waiting[at] for matcher in self._matchers) for at in (0, 1)),
        )

    def _verdict(self) -> Verdict:
        offsets = [dict(side.positions) for side in self._sides]
        for sink, matcher in zip(self.sinks, self._matchers, strict=True):
            for each in matcher.unanswered():
                position = sink.topics[each.side], each.partition
                offsets[each.side][position] = min(offsets[each.side][position], each.offset)
        keys = {
            matcher.sink.name: len(matcher.settled) for matcher in self._matchers if isinstance(matcher, TableMatcher)
        }
        return Verdict(progress=self._progress(), keys=keys, offsets=tuple(offsets))
