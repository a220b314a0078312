"""Encode the inputs of cases, and decode the records that queries wrote.

The source that owns a topic gives the formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kestrel_qtt.cases.model import ActualRecord, InputRecord, Window
from kestrel_qtt.drivers.partitions import Partitions
from kestrel_sql.errors import InputError, SerdeError, did_you_mean
from kestrel_sql.session.session import Session
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.records import Record


def input_records(
    session: Session, inputs: Sequence[InputRecord], partitions: Partitions
) -> Iterator[tuple[InputRecord, Record]]:
    """Write the inputs whose topic belongs to a source, each at its own offset or the next one of its partition.

    Raises:
        InputError: a key or value that the format cannot write, or a file whose topic no source has.
    """
    offsets: Counter[tuple[str, int]] = Counter()
    known: dict[str, SourceRecords | None] = {}
    for given in inputs:
        if given.topic not in known:
            known[given.topic] = records_of_topic(session, given.topic)
        records = known[given.topic]
        if records is None:
            _check_topic(session, given)
            continue
        record = _written(records, given)
        partition = partitions.of_input(given.topic, record.key, given.partition)
        offset = offsets[given.topic, partition] if given.offset is None else given.offset
        offsets[given.topic, partition] = offset + 1
        yield given, replace(record, partition=partition, offset=offset)


def _written(records: SourceRecords, given: InputRecord) -> Record:
    window = None if given.window is None else (given.window.start, given.window.end)
    try:
        if given.cells is not None:
            return records.from_cells(given.cells, given.timestamp)
        return records.from_json(given.key, given.value, given.timestamp, window=window, headers=given.headers)
    except SerdeError as error:
        raise InputError(f"{_place(given)}: {error.message}", hint=error.hint) from error


def _check_topic(session: Session, given: InputRecord) -> None:
    """Refuse a record of a file whose topic no source has; raise InputError."""
    if given.file is not None:
        topics = {source.topic for source in session.catalog.sources.values()}
        hint = did_you_mean(given.topic, topics) or f"the topics of the sources are {', '.join(sorted(topics))}"
        raise InputError(f"{_place(given)}: no stream or table has the topic {given.topic}", hint=hint)


def _place(given: InputRecord) -> str:
    """Say where an input is, as far as that is known."""
    line = "an input" if given.line is None else f"the input in line {given.line}"
    return f"{given.file}:{given.line}" if given.file is not None else line


def actual_records(session: Session, topic: str, found: Sequence[Record]) -> tuple[ActualRecord, ...]:
    """Read the records of a topic that a source owns; none for other topics.

    Raises:
        SerdeError: bytes that the source's formats cannot read.
    """
    records = records_of_topic(session, topic)
    return () if records is None else tuple(_actual(records, record) for record in found)


def records_of_topic(session: Session, topic: str) -> SourceRecords | None:
    """Return what encodes and decodes the records of a topic, by its first source; None if it has none."""
    source = next(iter(session.sources_of_topic(topic)), None)
    return None if source is None else SourceRecords.of(source, session.serde())


def _actual(records: SourceRecords, record: Record) -> ActualRecord:
    key, window = records.key_to_json(record.key)
    return ActualRecord(
        key=key,
        value=records.value_to_json(record.value),
        timestamp=record.timestamp,
        window=None if window is None else Window(*window, records.window_kind),
        headers=record.headers,
        partition=record.partition,
        offset=record.offset,
    )
