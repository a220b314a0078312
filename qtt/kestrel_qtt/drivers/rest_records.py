"""Records of cases as bytes and back, by the formats of the source that owns their topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kestrel_qtt.cases.model import ActualRecord, InputRecord, Window
from kestrel_sql.formats.record_json import from_json_form, to_json_form
from kestrel_sql.formats.serde import Side
from kestrel_sql.formats.windowed_key import join, split
from kestrel_sql.session.insert_values import source_spec
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import Record


def encoded(session: Session, inputs: Sequence[InputRecord]) -> Iterator[Record]:
    """Encode the inputs whose topic belongs to a source.

    Raises:
        SerdeError: a key or value that the format cannot write.
    """
    serde = session.serde()
    for given in inputs:
        source = next(iter(session.sources_of_topic(given.topic)), None)
        if source is None:
            continue
        key = from_json_form(serde(source_spec(source, Side.KEY)), given.key)
        if given.window is not None and key is not None and source.window is not None:
            key = join(key, (given.window.start, given.window.end), source.window)
        yield Record(
            topic=given.topic,
            key=key,
            value=from_json_form(serde(source_spec(source, Side.VALUE)), given.value),
            timestamp=given.timestamp,
            headers=given.headers,
        )


def decoded(session: Session, topic: str, records: Sequence[Record]) -> tuple[ActualRecord, ...]:
    """Read the records of a topic that a source owns; none for other topics.

    Raises:
        SerdeError: bytes that the source's formats cannot read.
    """
    sources = session.sources_of_topic(topic)
    if not sources:
        return ()
    source, serde = sources[0], session.serde()
    key_spec, value_spec = (serde(source_spec(source, side)) for side in (Side.KEY, Side.VALUE))
    found = []
    for record in records:
        key, window = record.key, None
        if source.window is not None and key is not None:
            key, (start, end) = split(key, source.window)
            window = Window(start, end, "session" if source.window.size_ms is None else "time")
        found.append(
            ActualRecord(
                key=to_json_form(key_spec, key),
                value=to_json_form(value_spec, record.value),
                timestamp=record.timestamp,
                window=window,
                headers=record.headers,
                offset=record.offset,
            )
        )
    return tuple(found)
