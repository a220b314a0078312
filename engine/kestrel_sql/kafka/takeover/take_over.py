"""Takes over the state of a query of ksqlDB: its stores, and the work in flight between them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kestrel_sql.dataflow.graph import Graph, SourceRead, Stateful
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.takeover.changes import split_changes
from kestrel_sql.kafka.takeover.internal import (
    Feed,
    Serde,
    fed_graph,
    logger_of,
    name_of,
    repartition_feed,
    table_feed,
)
from kestrel_sql.kafka.takeover.left import CHANGELOG, REPARTITION, Left
from kestrel_sql.kafka.takeover.stores import Stores
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.plan.step import Formats, Step
from kestrel_sql.plan.steps.joins import StreamStreamJoinV1, StreamTableJoinV1
from kestrel_sql.plan.steps.sources import TableSourceV1, TableSourceV2, WindowedTableSourceV1
from kestrel_sql.plan.steps.streams import StreamGroupByV1, StreamGroupByV2
from kestrel_sql.plan.steps.tables import TableGroupByV1, TableGroupByV2
from kestrel_sql.process.query import Checkpoint, ProcessQuery
from kestrel_sql.topics.records import Record

_COMPUTED_ANEW = re.compile(r"Project-Last|KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-\d+")
"""Stores with what others determine: results of joins, and who subscribes to which foreign key."""

_FOREIGN_KEY = re.compile(r"-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic$")
"""Topics with requests and answers of foreign-key joins."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a query.

    Attributes:
        states: the state of its operators, by the number of their output and task.
        records: what the work in flight gives; nobody has written it.
        drained: the offsets behind the work in flight.
        keys: the number of keys of each store.
    """

    states: Checkpoint
    records: Sequence[Record]
    drained: Mapping[Position, int]
    keys: Mapping[str, int]

    def __str__(self) -> str:
        """What was taken, for people."""
        stores = ", ".join(f"{count} keys of {name}" for name, count in self.keys.items())
        flight = ", ".join(f"{topic}-{partition} to {at}" for (topic, partition), at in sorted(self.drained.items()))
        return stores + (f", and {len(self.records)} results of work in flight ({flight})" if flight else "")


def take_over(graph: Graph, tasks: int, left: Left, serde: Serde) -> Taken:
    """Return the state of a query as ksqlDB left it.

    Raises:
        QueryError: a part of it cannot be taken over, and so nothing of it.
    """
    (plan,) = graph.plans.values()
    steps = [*plan.physical_plan.steps()]
    stores = Stores(graph, left, serde, {})
    states, table = _tables(graph, tasks, left, serde, steps, stores)
    for stateful in _operators(graph):
        own = stores.states(stateful)
        if own is not None:
            states = {at: blob for at, blob in states.items() if at[0] != stateful.output.number}
            states |= {(stateful.output.number, task): dump_state(state) for task, state in own.items()}
    unknown = [name for name in left.names(CHANGELOG) if name not in stores.keys and not _COMPUTED_ANEW.fullmatch(name)]
    if unknown:
        raise QueryError(f"no operator of Kestrel has the state of its store {unknown[0]}")
    return _drained(graph, tasks, left, _repartitions(graph, left, serde, steps), states, table, stores)


def has_final_windows(graph: Graph) -> bool:
    """Whether a query emits windows when they close."""
    return any(getattr(each.operator, "final", False) for each in _operators(graph))


def _operators(graph: Graph) -> Iterator[Stateful]:
    return (each for level in graph.levels for each in level)


def _tables(
    graph: Graph, tasks: int, left: Left, serde: Serde, steps: Sequence[Step], stores: Stores
) -> tuple[Checkpoint, Sequence[Record]]:
    """The state that the rows of the source tables make when they pass through the query, and what it would write."""
    feeds, records = [], []
    for step in steps:
        if isinstance(step, WindowedTableSourceV1):
            raise QueryError("it reads a table with windows")
        if not isinstance(step, TableSourceV1 | TableSourceV2):
            continue
        if step.source_schema.headers:
            raise QueryError("it reads a table with headers")
        store = f"{name_of(step).removesuffix('-Source')}-Reduce"
        topic = left.topic(f"{store}{CHANGELOG}")
        if topic is None:
            raise QueryError(f"the topic {left.prefix}{store}{CHANGELOG} with its state does not exist")
        feeds.append(table_feed(step, _source(graph, step), topic, serde))
        kept = [record for record in left.latest(store) if record.value is not None]
        stores.keys[store] = len(kept)
        records += kept
    if not feeds:
        return {}, []
    process, output = ProcessQuery(fed_graph(graph, feeds), tasks), Output()
    process.process(sorted(records, key=lambda record: record.timestamp), output)
    if process.ended:
        raise QueryError(f"its tables cannot be read: {output.log[-1].text}")
    return process.checkpoint(), output.records


def _source(graph: Graph, step: Step) -> SourceRead:
    logger = logger_of(graph, step)
    return next(read for read in graph.sources if read.logger == logger and not read.silent)


def _repartitions(graph: Graph, left: Left, serde: Serde, steps: Sequence[Step]) -> dict[str, Feed]:
    """The feed of each repartition topic."""
    found: dict[str, Feed] = {}
    for stateful in _operators(graph):
        for step in steps:
            if logger_of(graph, step) != stateful.logger:
                continue
            for side, source in enumerate(step.upstream):
                for name, formats in _names(step, side, source):
                    topic = left.topic(f"{name}{REPARTITION}")
                    if topic is not None and stateful.inputs[side].rekeyed:
                        found[topic] = repartition_feed(stateful, side, topic, formats, serde)
    return found


def _names(step: Step, side: int, source: Step) -> Iterator[tuple[str, Formats]]:
    """The names that the repartition topic of an input of a step may have, and the formats of its records."""
    own = name_of(step)
    match source, step:
        case StreamGroupByV1() | StreamGroupByV2() | TableGroupByV1() | TableGroupByV2(), _:
            yield name_of(source), source.internal_formats
        case _, StreamStreamJoinV1():
            formats = (step.left_internal_formats, step.right_internal_formats)[side]
            yield f"{own}-{('left', 'right')[side]}", formats
        case _, StreamTableJoinV1() if side == 0:
            yield own, step.internal_formats
        case _:
            pass


def _drained(
    graph: Graph,
    tasks: int,
    left: Left,
    feeds: Mapping[str, Feed],
    states: Checkpoint,
    table: Sequence[Record],
    stores: Stores,
) -> Taken:
    """Process the work in flight: first what is nearest to the sink, for it is older than what comes before it."""
    levels: dict[int, list[Feed]] = defaultdict(list)
    drained: dict[Position, int] = {}
    output = Output()
    for topic in left.records:
        unread = [] if topic.endswith(CHANGELOG) else left.unread(topic)
        drained |= {(topic, record.partition): record.offset + 1 for record in unread}
        if unread and topic in feeds:
            levels[feeds[topic].level or 0].append(feeds[topic])
        elif unread and not _FOREIGN_KEY.search(topic):
            raise QueryError(f"{len(unread)} records of {topic} are in flight, and cannot be processed here")
    if any(_FOREIGN_KEY.search(topic) for topic, _ in drained):
        output.records += _missing(table, left.sink())
    for _, own in sorted(levels.items(), reverse=True):
        process = ProcessQuery(fed_graph(graph, own), tasks)
        process.restore(states)
        process.process(sorted(_in_flight(left, own), key=lambda record: record.timestamp), output)
        if process.ended:
            raise QueryError(f"the records in flight cannot be processed: {output.log[-1].text}")
        states = process.checkpoint()
    return Taken(states=states, records=output.records, drained=drained, keys=stores.keys)


def _in_flight(left: Left, feeds: Sequence[Feed]) -> Iterator[Record]:
    for feed in feeds:
        unread = left.unread(feed.read.topic)
        yield from split_changes(unread) if feed.is_changes else unread


def _missing(table: Sequence[Record], sink: Sequence[Record]) -> Iterator[Record]:
    """What a sink lacks of the rows of a table: requests and answers of a foreign-key join are on their way."""
    wanted, held = _by_key(table), _by_key(sink)
    for key, record in wanted.items():
        if key not in held or held[key].value != record.value:
            yield record
    for key, record in held.items():
        if key not in wanted:
            yield replace(record, value=None, headers=())


def _by_key(records: Sequence[Record]) -> dict[bytes | None, Record]:
    """The last record of each key, without tombstones."""
    last = {record.key: record for record in records}
    return {key: record for key, record in last.items() if record.value is not None}
