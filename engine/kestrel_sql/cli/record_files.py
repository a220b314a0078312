"""Topics of a memory engine from files and to files: one JSON object for each record."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.cli.render import to_json
from kestrel_sql.errors import InputError, SerdeError, StatementError
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.records import Headers, Record


@dataclass(slots=True)
class Inputs:
    """Files of records that wait for a stream or table over their topic, which says how the records are written."""

    files: Mapping[str, list[Path]]
    _done: set[str] = field(default_factory=set)

    def feed(self, engine: MemoryEngine) -> int:
        """Produce the records of every topic that has a source by now, and count them.

        Raises:
            InputError: a file that cannot be read, or a record that does not fit the source.
        """
        count = 0
        for topic, files in self.files.items():
            source = next(iter(engine.session.sources_of_topic(topic)), None)
            if topic in self._done or source is None:
                continue
            self._done.add(topic)
            for file in files:
                for number, members in _objects(file):
                    engine.produce(_record(engine, source, members, f"{file}, record {number}"))
                    count += 1
        return count

    def check_used(self) -> None:
        """Check that every topic was fed.

        Raises:
            StatementError: names the topics that no statement reads.
        """
        unused = [topic for topic in self.files if topic not in self._done]
        if unused:
            hint = "topics are named by KAFKA_TOPIC, case matters"
            raise StatementError(f"no stream or table reads the topic {', '.join(unused)}", hint=hint)


def _objects(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a file: a JSON list of objects, an object with `inputs`, or one object a line."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    try:
        found = _parsed(text)
    except ValueError as error:
        raise InputError(f"{file} is neither JSON nor JSON lines: {error}") from error
    for number, item in enumerate(found, 1):
        if not isinstance(item, dict) or "value" not in item:
            raise InputError(
                f"{file}, record {number}: expected an object with a value",
                hint='{"key": …, "value": …, "timestamp": …}',
            )
        yield number, item


def _parsed(text: str) -> list[Any]:
    try:
        whole = json.loads(text, parse_float=Decimal)
    except ValueError:
        return [json.loads(line, parse_float=Decimal) for line in text.split("\n") if line.strip()]
    if isinstance(whole, dict) and "value" not in whole:
        whole = whole.get("inputs", [])
    return whole if isinstance(whole, list) else [whole]


def _record(engine: MemoryEngine, source: Source, members: Mapping[str, Any], place: str) -> Record:
    window = members.get("window")
    try:
        return SourceRecords.of(source, engine.session.serde()).from_json(
            members.get("key"),
            members["value"],
            int(members.get("timestamp", 0)),
            window=(int(window["start"]), int(window["end"])) if isinstance(window, dict) else None,
            headers=_headers(members.get("headers") or ()),
        )
    except (SerdeError, KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InputError(
            f"{place} does not fit {source.name}: {error}", hint=f"its columns are {source.schema}"
        ) from error


def _headers(items: Any) -> Headers:
    return tuple(
        (item["KEY"], None if item.get("VALUE") is None else base64.b64decode(item["VALUE"], validate=True))
        for item in items
    )


def sink_topics(engine: MemoryEngine) -> list[str]:
    """The topics that persistent queries write."""
    sources = engine.session.catalog.sources
    sinks = (sources.get(query.plan.sink or "") for query in engine.session.queries.values())
    return list(dict.fromkeys(sink.topic for sink in sinks if sink is not None))


def record_lines(engine: MemoryEngine, topic: str) -> Iterator[str]:
    """The records of a topic as lines of JSON.

    Raises:
        SerdeError: a record that the source's formats cannot read.
    """
    records = SourceRecords.of(engine.session.sources_of_topic(topic)[0], engine.session.serde())
    for record in engine.broker.records(topic):
        key, window = records.key_to_json(record.key)
        members: dict[str, Any] = {"topic": topic}
        if window is not None:
            members["window"] = {"start": window[0], "end": window[1], "type": records.window_kind}
        members |= {"key": key, "value": records.value_to_json(record.value), "timestamp": record.timestamp}
        if record.headers:
            members["headers"] = [{"KEY": name, "VALUE": value} for name, value in record.headers]
        yield to_json(members)
