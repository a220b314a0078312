"""Topics of a memory engine from files and to files: one JSON object for each record."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.cli.render import to_json
from kestrel_sql.errors import InputError, SerdeError, StatementError, unreadable
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.topics.records import Headers, Record

_MEMBERS = ("topic", "key", "value", "timestamp", "headers", "window")
_HINT = 'a record is {"key": …, "value": …, "timestamp": …}'
_PLAIN_HINT = "--input-shape plain takes bare values"


class InputShape(StrEnum):
    """What an item of an input file is: a record with its members, or a bare value."""

    RECORD = "record"
    PLAIN = "plain"


class Inputs(msgspec.Struct):
    """Files of records for topics; a stream or table over the topic gives the formats (rules E12.4)."""

    files: Mapping[str, list[Path]]
    shape: InputShape = InputShape.RECORD
    _done: set[str] = set()

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
                for position, item in _items(file, self.shape):
                    members = {"key": None, "value": item} if self.shape is InputShape.PLAIN else item
                    _check_members(members, source, position, self.shape)
                    engine.produce(_record(engine, source, members, position))
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


def _items(file: Path, shape: InputShape) -> Iterator[tuple[str, Any]]:
    """Give the items of a file with their position: those of a JSON list or of `inputs`, or one a line."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {unreadable(error)}") from error
    whole = _whole(file, text)
    if shape is InputShape.RECORD and isinstance(whole, dict) and whole.keys() == {"inputs"}:
        whole = whole["inputs"]
    if isinstance(whole, list):
        yield from ((f"{file}, record {number}", item) for number, item in enumerate(whole, 1))
    elif whole is not None:
        yield f"{file}, record 1", whole
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"{file}, line {number}", _loaded(line, f"{file}, line {number}")


def _whole(file: Path, text: str) -> object:
    """Read a file that is one JSON document, None if each of its lines is one."""
    try:
        return json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError as error:
        first = next((line for line in text.split("\n") if line.strip()), "")
        try:
            json.loads(first)
        except ValueError:
            raise _no_json(f"{file}, line {error.lineno}", error) from error
        return None


def _loaded(line: str, position: str) -> object:
    try:
        return json.loads(line, parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise _no_json(position, error) from error


def _no_json(position: str, error: json.JSONDecodeError) -> InputError:
    return InputError(f"{position}: not JSON: {error.msg} (column {error.colno})", hint=_HINT)


def _check_members(members: object, source: Source, position: str, shape: InputShape) -> None:
    """Check that a record has what its source needs, and nothing that nobody reads."""
    if shape is InputShape.PLAIN and source.kind is SourceKind.TABLE:
        raise InputError(
            f"{position}: a bare value has no key, which the table {source.name} needs", hint="--input-shape record"
        )
    if not isinstance(members, dict):
        raise InputError(f"{position}: expected an object with a value", hint=f"{_HINT}; {_PLAIN_HINT}")
    for name in members:
        if name not in _MEMBERS:
            near = get_close_matches(name, _MEMBERS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"members are {', '.join(_MEMBERS)}"
            raise InputError(f"{position}: unknown member {name} of a record", hint=f"{meant}; {_PLAIN_HINT}")
    needed = ("key", "value") if source.schema.key else ("value",)
    missing = [name for name in needed if name not in members]
    if missing:
        raise InputError(f"{position}: the record has no {' and no '.join(missing)}", hint=_HINT)


def _record(engine: MemoryEngine, source: Source, members: Mapping[str, object], position: str) -> Record:
    window = members.get("window")
    try:
        return SourceRecords.of(source, engine.session.serde()).from_json(
            members.get("key"),
            members["value"],
            _timestamp(members.get("timestamp", 0)),
            window=(int(window["start"]), int(window["end"])) if isinstance(window, dict) else None,
            headers=_headers(members.get("headers") or ()),
        )
    except (SerdeError, KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InputError(
            f"{position} does not fit {source.name}: {error}", hint=f"its columns are {source.schema}"
        ) from error


def _timestamp(found: object) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeError(f"expected a timestamp in milliseconds, got {to_json(found)}")
    return found


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
        yield to_json(record_members(records, record))


def record_members(records: SourceRecords, record: Record) -> dict[str, object]:
    """A record as files of records and cases have it.

    Raises:
        SerdeError: the source's formats cannot read it.
    """
    key, window = records.key_to_json(record.key)
    members: dict[str, Any] = {"topic": record.topic}
    if window is not None:
        members["window"] = {"start": window[0], "end": window[1], "type": records.window_kind}
    members |= {"key": key, "value": records.value_to_json(record.value), "timestamp": record.timestamp}
    if record.headers:
        members["headers"] = [{"KEY": name, "VALUE": value} for name, value in record.headers]
    return members
