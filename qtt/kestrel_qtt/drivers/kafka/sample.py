"""Sample the topics of an application on a broker, as the inputs of a case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import Actual, ActualRecord, Case, InputRecord, Rejected, Topic
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.drivers.case_records import actual_records
from kestrel_qtt.drivers.declared_topics import topic_of
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.kafka.mask import Mask, changed_values, hidden_everywhere, holds_in_part
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.drivers.topics import schema_json
from kestrel_qtt.judge.json_text import write_json
from kestrel_sql.errors import EngineError, did_you_mean
from kestrel_sql.formats.registry.memory import MissingRegistry, SchemaRegistry
from kestrel_sql.formats.registry.remote import open_registry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import held_records, last_records, partition_counts
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import CreateSource
from kestrel_sql.topics.records import Record

Tell = Callable[[str], None]


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What to sample: the newest records of each topic in `last`, and records of other sources with equal keys."""

    servers: str
    last: Mapping[str, int]
    masks: Sequence[Mask] = ()
    registry_url: str | None = None


@dataclass(slots=True)
class Sampler:
    """Reads the records of a case's sources; `tell` gets a line about each topic."""

    case: Case
    wishes: Wishes
    tell: Tell
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        """Plan the script, with the schemas of the registry.

        Raises:
            DriverError: a statement is refused, or the registry does not answer.
        """
        try:
            registry = None if self.wishes.registry_url is None else open_registry(self.wishes.registry_url, {})
            if registry is not None:
                self.case = replace(self.case, topics=tuple(_topics_with_schemas(self.case, registry)))
        except EngineError as error:
            raise DriverError(error.render()) from error
        run = prepare(self.case, MissingRegistry() if registry is None else None)
        if isinstance(run.outcome, Rejected):
            raise DriverError(f"{run.outcome.message}\n{run.outcome.place}".rstrip())
        self.session = run.session
        if registry is not None:
            # Real records name the ids of the real registry.
            self.session.registry = registry

    def sampled(self) -> Case:
        """Return the case with inputs and topics.

        Raises:
            DriverError: the broker does not answer, there is no such topic or column, or nothing is in the topics.
        """
        sources = self._sources()
        self._check(sources)
        config = KafkaConfig(servers=self.wishes.servers)
        if problem := BrokerOffsets(config).problem():
            raise DriverError(f"{problem.message}; {problem.hint}")
        try:
            counts = partition_counts(config, sources)
            found = self._read(config, sources)
        except EngineError as error:
            raise DriverError(error.render()) from error
        if not found:
            raise DriverError(f"there are no records in {', '.join(self.wishes.last)}")
        inputs = tuple(_input(topic, record) for topic, record in in_order(self._masked(found)))
        known = {topic.name: topic for topic in self.case.topics}
        topics = [replace(known.get(name, Topic(name=name)), partitions=count) for name, count in counts.items()]
        return replace(self.case, inputs=inputs, topics=tuple(topics))

    def _sources(self) -> list[str]:
        """Return the topics that the script reads and that none of its queries writes."""
        known = self.session.catalog.sources
        queries = [query.plan for query in self.session.queries.values()]
        written = {known[plan.sink or ""].topic for plan in queries if plan.sink in known}
        read = (known[name].topic for plan in queries for name in plan.sources if name in known)
        return [topic for topic in dict.fromkeys(read) if topic not in written]

    def _check(self, sources: Sequence[str]) -> None:
        for topic in self.wishes.last:
            if topic not in sources:
                hint = did_you_mean(topic, sources) or f"it reads {', '.join(sources)}"
                raise DriverError(f"{self.case.script} does not read the topic {topic}; {hint}")
        for mask in self.wishes.masks:
            names = sorted({name for topic in sources for name in self._columns(topic, is_key=mask.is_key)})
            if mask.path and mask.path[0] not in names:
                hint = did_you_mean(mask.path[0], names) or f"the columns are {', '.join(names)}"
                raise DriverError(f"no source has the column {mask}; {hint}")

    def _columns(self, topic: str, *, is_key: bool) -> list[str]:
        source = self.session.sources_of_topic(topic)[0]
        return [column.name for column in (source.schema.key if is_key else source.schema.value)]

    def _read(self, config: KafkaConfig, sources: Sequence[str]) -> list[tuple[str, ActualRecord]]:
        """Read the topics of `last`, then the records of the other sources that have the same keys."""
        found: list[tuple[str, ActualRecord]] = []
        for topic, count in self.wishes.last.items():
            newest = in_order(self._decoded(topic, last_records(config, topic, count)))[-count:]
            self.tell(f"{topic}: the last {len(newest)} records")
            found += newest
        keys = set(chain.from_iterable(_scalars(record.key, record.value) for _, record in found))
        for topic in sources:
            if topic not in self.wishes.last:
                chunks = (self._decoded(topic, chunk) for chunk in held_records(config, topic))
                held = [each for chunk in chunks for each in chunk if keys & set(_scalars(each[1].key))]
                self.tell(f"{topic}: {len(held)} records whose key is in the sample")
                found += held
        return found

    def _decoded(self, topic: str, records: Iterable[Record]) -> Iterator[tuple[str, ActualRecord]]:
        for record in records:
            try:
                yield topic, actual_records(self.session, topic, [record])[0]
            except EngineError as error:
                at = f"partition {record.partition}, offset {record.offset}"
                self.tell(f"{topic}, {at}: left out, because it cannot be read: {error.message}")

    def _masked(self, found: Iterable[tuple[str, ActualRecord]]) -> Iterator[tuple[str, ActualRecord]]:
        """Mask the columns that were asked for, and whatever equals one of their values in any record."""
        used = dict.fromkeys(self.wishes.masks, False)
        values: set[str] = set()
        records = []
        for topic, given in found:
            record = given
            for mask in self.wishes.masks:
                before = record.key if mask.is_key else record.value
                try:
                    after = mask.applied(before, self._columns(topic, is_key=mask.is_key))
                except ValueError as error:
                    raise DriverError(f"topic {topic}: {error}") from error
                used[mask] |= after != before
                values.update(changed_values(before, after))
                record = replace(record, key=after) if mask.is_key else replace(record, value=after)
            records.append((topic, record))
        yield from ((topic, self._hidden(topic, record, values)) for topic, record in records)
        for mask in (mask for mask, is_used in used.items() if not is_used):
            self.tell(f"nothing was masked by {mask}: it is in no record")

    def _hidden(self, topic: str, record: ActualRecord, values: set[str]) -> ActualRecord:
        if not values:
            return record
        mask = self.wishes.masks[0]
        headers = [(text or b"").decode(errors="replace") for _, text in record.headers]
        if any(holds_in_part(content, values) for content in (record.key, record.value, headers)):
            at = f"partition {record.partition}, offset {record.offset}"
            raise DriverError(f"topic {topic}, {at}: a text or name contains a masked value: mask it, too")
        texts = {value.encode() for value in values}
        return replace(
            record,
            key=hidden_everywhere(record.key, values, mask),
            value=hidden_everywhere(record.value, values, mask),
            headers=tuple(
                (name, str(mask.hidden(text.decode())).encode() if text in texts else text)
                for name, text in record.headers
            ),
        )


def in_order(records: Iterable[tuple[str, ActualRecord]]) -> list[tuple[str, ActualRecord]]:
    """Sort records as they arrived: by time, and within a partition by offset, also where a record is late."""
    by_partition: dict[tuple[str, int], list[ActualRecord]] = defaultdict(list)
    for topic, record in records:
        by_partition[topic, record.partition].append(record)
    timed: list[tuple[int, str, int, int, ActualRecord]] = []
    for (topic, partition), found in by_partition.items():
        time = 0
        for record in sorted(found, key=lambda each: each.offset):
            time = max(time, record.timestamp)
            timed.append((time, topic, partition, record.offset, record))
    return [(each[1], each[-1]) for each in sorted(timed, key=lambda each: each[:4])]


def _input(topic: str, record: ActualRecord) -> InputRecord:
    return InputRecord(
        topic=topic,
        key=parse_json(write_json(record.key)),
        value=parse_json(write_json(record.value)),
        timestamp=record.timestamp,
        window=record.window,
        headers=record.headers,
        partition=record.partition,
        offset=record.offset,
    )


def _topics_with_schemas(case: Case, registry: SchemaRegistry) -> Iterator[Topic]:
    """The topics of the CREATE statements that the registry has schemas for."""
    for parsed in Session(variables=dict(case.variables)).parse("\n".join(case.statements)):
        if isinstance(parsed.statement, CreateSource):
            name = topic_of(parsed.statement).name
            key, value = (registry.latest(f"{name}-{side}") for side in ("key", "value"))
            if key is not None or value is not None:
                yield Topic(
                    name=name,
                    key_format=None if key is None else key.format.value,
                    value_format=None if value is None else value.format.value,
                    key_schema=None if key is None else schema_json(key.format, key.text),
                    value_schema=None if value is None else schema_json(value.format, value.text),
                )


def _scalars(*contents: Actual) -> Iterator[str]:
    """The values of keys and columns that records may be joined by, as JSON."""
    for content in contents:
        for value in content.values() if isinstance(content, Mapping) else [content]:
            if isinstance(value, str | int | bytes) and not isinstance(value, bool):
                yield write_json(value)
