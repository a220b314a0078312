"""The cases that `kestrel shadow --cases` writes of differences, which `qtt` runs and makes small."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from kestrel_sql.cli.record_files import record_members
from kestrel_sql.cli.render import to_json
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import SchemaFormat
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import held_records
from kestrel_sql.kafka.shadow.causes import Causes, queries_behind
from kestrel_sql.kafka.shadow.matching import Difference
from kestrel_sql.kafka.shadow.shadow import Sink

_MOST = 100
"""How many cases are written: each needs its inputs, which are looked for in all that the sources hold."""

Statement = tuple[str, str | None]
"""The text of a statement, and the id of its query if it has one."""


@dataclass(slots=True, kw_only=True)
class Cases:
    """Keeps differences, and writes a case of each into a folder at the end.

    The inputs are the records of the sources with its key, the outputs are what the left side wrote with that key.
    """

    folder: Path
    causes: Causes
    sinks: Sequence[Sink]
    configs: tuple[KafkaConfig, KafkaConfig]
    statements: Sequence[Statement]
    properties: Mapping[str, object]
    _found: list[Difference] = field(default_factory=list)

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
            outputs = [[*self._written(sink, each)] for each in found]
            behind = queries_behind(self.causes.session, sink.source.name)
            statements = [text for text, query in self.statements if query is None or query in behind]
            for number, (each, inputs) in enumerate(zip(found, self.causes.all(sink.source.name, found), strict=True)):
                members = {
                    "name": f"{sink.source.name} differs in {each.kind} ({number + 1})",
                    **({"properties": self.properties} if self.properties else {}),
                    "topics": [*self._topics(sink.source.name)],
                    "statements": statements,
                    "inputs": [{**record_members(*input_), "partition": input_[1].partition} for input_ in inputs],
                    "outputs": outputs[number],
                }
                file = self.folder / f"{sink.source.name.lower()}-{number + 1}.json"
                file.write_text(_case_text(members), encoding="utf-8")
        return len(self._found)

    def _written(self, sink: Sink, difference: Difference) -> Iterator[dict[str, Any]]:
        """What is right for a key: what the left side wrote.

        Of a table it is the last value, after the changes that the right side wrote before its own last one: what is
        between differs.
        """
        if not sink.is_table:
            yield from self._with_key(sink, difference, 0)
            return
        changes = [*self._with_key(sink, difference, 1)]
        last = [*self._with_key(sink, difference, 0)][-1:]
        yield from [*(changes[:-1] if last else changes), *last]

    def _with_key(self, sink: Sink, difference: Difference, side: int) -> Iterator[dict[str, Any]]:
        record, reader = difference.record, difference.readers[side]
        wanted = None if record.key is None else difference.readers[record.side].identity(record.key)
        for each in chain.from_iterable(held_records(self.configs[side], sink.topics[side])):
            if (None if each.key is None else reader.identity(each.key)) == wanted:
                yield {**record_members(reader.records, each), "topic": sink.source.topic}

    def _topics(self, sink: str) -> Iterator[dict[str, Any]]:
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


def _case_text(members: Mapping[str, Any]) -> str:
    """A case file of one case; what is in a list has a line of its own."""
    lines = []
    for name, value in members.items():
        text = to_json(value)
        if isinstance(value, list) and value:
            text = "[\n        " + ",\n        ".join(map(to_json, value)) + "\n      ]"
        lines.append(f"      {json.dumps(name)}: {text}")
    return '{\n  "tests": [\n    {\n' + ",\n".join(lines) + "\n    }\n  ]\n}\n"
