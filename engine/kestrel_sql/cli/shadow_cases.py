"""The cases that `kestrel shadow --cases` writes of differences, which `qtt` runs and makes small."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_sql.cli.record_files import record_members
from kestrel_sql.cli.render import to_json
from kestrel_sql.cli.shadow_report import title
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import SchemaFormat
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import held_records
from kestrel_sql.kafka.shadow.causes import Causes, queries_behind
from kestrel_sql.kafka.shadow.matching import Difference
from kestrel_sql.kafka.shadow.shadow import Sink
from kestrel_sql.kafka.shadow.written import Reader
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.records import Record

_MOST = 100
"""How many cases are written: each needs its inputs, which are looked for in all that the sources hold."""

Statement = tuple[str, str | None]
"""The text of a statement, and the id of its query if it has one."""


class Cases(msgspec.Struct, kw_only=True):
    """Keeps differences, and writes a case of each into a folder at the end.

    The inputs are the records of the sources with its key, the outputs are what the left side wrote with that key.
    """

    folder: Path
    causes: Causes
    sinks: Sequence[Sink]
    configs: tuple[KafkaConfig, KafkaConfig]
    statements: Sequence[Statement]
    properties: Mapping[str, object]
    _found: list[Difference] = []

    def add(self, difference: Difference) -> None:
        """Keep a difference, as long as there are not too many."""
        if len(self._found) < _MOST:
            self._found.append(difference)

    def write(self) -> int:
        """Write the cases, and return how many.

        Raises:
            EngineError: a broker does not answer.
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for sink in self.sinks:
            found = [each for each in self._found if each.sink is sink.source]
            if not found:
                continue
            outputs = self._outputs(sink, found)
            behind = queries_behind(self.causes.session, sink.source.name)
            statements = [text for text, query in self.statements if query is None or query in behind]
            for number, (each, inputs) in enumerate(zip(found, self.causes.all(sink.source.name, found), strict=True)):
                members = {
                    "name": f"{sink.source.name}: {title(each.kind)} ({number + 1})",
                    **({"properties": self.properties} if self.properties else {}),
                    "topics": [*self._topics(sink.source.name)],
                    "statements": statements,
                    "inputs": [*_members(inputs, with_partition=True)],
                    "outputs": outputs[number],
                }
                file = self.folder / f"{sink.source.name.lower()}-{number + 1}.json"
                file.write_text(_case_text(members), encoding="utf-8")
        return len(self._found)

    def _outputs(self, sink: Sink, found: Sequence[Difference]) -> list[list[dict[str, object]]]:
        """What is right for the key of each difference: what the left side wrote.

        Of a table it is the last value, after the changes that the right side wrote before its own last one: what is
        between differs.
        """
        left = self._with_keys(sink, found, 0)
        if not sink.is_table:
            return left
        right = self._with_keys(sink, found, 1)
        return [[*(ours[:-1] if theirs else ours), *theirs[-1:]] for theirs, ours in zip(left, right, strict=True)]

    def _with_keys(self, sink: Sink, found: Sequence[Difference], side: int) -> list[list[dict[str, object]]]:
        """The records of a side with the key of each difference, or with its time if it has no key."""
        reader = found[0].readers[side]
        listed: dict[bytes | int, list[tuple[SourceRecords, Record]]] = {}
        wanted = [_known_by(each.readers[each.record.side], each.record.key, each.record.content[1]) for each in found]
        for each in wanted:
            listed[each] = []
        for record in chain.from_iterable(held_records(self.configs[side], sink.topics[side])):
            of_key = listed.get(_known_by(reader, record.key, record.timestamp))
            if of_key is not None:
                of_key.append((reader.records, replace(record, topic=sink.source.topic)))
        return [[*_members(listed[each])] for each in wanted]

    def _topics(self, sink: str) -> Iterator[dict[str, object]]:
        """The topics that are read, with their schemas and partitions."""
        for source, partitions in self.causes.topics(sink):
            found: dict[str, Any] = {"name": source.topic, "partitions": partitions}
            formats = source.message_formats
            for side, format_ in (("key", formats.key_format), ("value", formats.value_format)):
                has_schema = format_.format in LANGUAGES
                schema = self.causes.registry.latest(f"{source.topic}-{side}") if has_schema else None
                if schema is not None:
                    text = schema.text if schema.format is SchemaFormat.PROTOBUF else json.loads(schema.text)
                    found |= {f"{side}Format": schema.format.value, f"{side}Schema": text}
            yield found


def _known_by(reader: Reader, key: bytes | None, timestamp: int) -> bytes | int:
    return timestamp if key is None else reader.identity(key)


def _members(
    found: Iterable[tuple[SourceRecords, Record]], *, with_partition: bool = False
) -> Iterator[dict[str, object]]:
    """Records as cases have them; one that cannot be read has no place there."""
    for records, record in found:
        with suppress(SerdeError):
            yield {**record_members(records, record), **({"partition": record.partition} if with_partition else {})}


def _case_text(members: Mapping[str, object]) -> str:
    """A case file of one case; what is in a list has a line of its own."""
    lines = []
    for name, value in members.items():
        text = to_json(value)
        if isinstance(value, list) and value:
            text = "[\n        " + ",\n        ".join(map(to_json, value)) + "\n      ]"
        lines.append(f"      {json.dumps(name)}: {text}")
    return '{\n  "tests": [\n    {\n' + ",\n".join(lines) + "\n    }\n  ]\n}\n"
