"""The data model of a case, its records and its outcome; it knows no files, engine or pytest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, TypeAlias

import msgspec

_INDEX = re.compile(r"\[\d+\]")


class Matching(msgspec.Struct, frozen=True, kw_only=True):
    """How outputs are compared: all columns, in order within a topic, exactly, unless the case says otherwise.

    `ignore` holds paths such as `value.UPDATED_AT` that are not compared. Where outputs are `unordered`, order counts
    only among records of one key. `tolerance` is how far a number with a fraction may be off.
    """

    ignore: tuple[str, ...] = ()
    unordered: bool = False
    tolerance: Decimal | None = None

    def __str__(self) -> str:
        """Describe what is compared loosely, for a report; empty if nothing is."""
        parts = [f"without {', '.join(self.ignore)}"] if self.ignore else []
        parts += ["in any order of keys"] if self.unordered else []
        parts += [f"fractions within {self.tolerance}"] if self.tolerance is not None else []
        return "; ".join(parts)

    def ignores(self, column: str) -> bool:
        """Say whether a column, such as `value.ITEMS[0].PRICE`, is at or below a path of `ignore`."""
        spelled = _INDEX.sub("", column).upper()
        return any(f"{spelled}.".startswith(f"{path.upper()}.") for path in self.ignore)


Json: TypeAlias = "bool | int | Decimal | str | list[Json] | dict[str, Json] | None"
"""A value as read from a case file: fractions are decimals that keep their scale."""

Actual: TypeAlias = "bool | int | float | Decimal | str | bytes | Sequence[Actual] | Mapping[str, Actual] | None"
"""A value as a driver hands it out.

JSON, KAFKA and DELIMITED values are what an exact reader of the written text gives: `int`, `Decimal` for every number
with a fraction or exponent, `str`. AVRO, PROTOBUF, JSON_SR and PROTOBUF_NOSR values are typed: `float` for doubles,
`Decimal` with the scale of its type, `bytes`, dates and times as integers (rules Q6.3 and Q6.4).
"""

CLASS_PREFIX = "class: "
"""What the reason of a case starts with that passed although its spec holds in part only."""

Headers: TypeAlias = "tuple[tuple[str, bytes | None], ...]"


class Window(msgspec.Struct, frozen=True):
    """The window of a windowed key: bounds in epoch milliseconds, kind `session` or `time` (tumbling and hopping)."""

    start: int
    end: int
    kind: str


class InputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One input record; a null value is a tombstone.

    `timestamp` is in epoch milliseconds. `partition` and `offset` are None if the file gives none: partition 0 and the
    next offset of that partition. A record of a CSV file has `cells`, the strings by column name, instead of key and
    value. `line` is its line in `file`, or in the case file if `file` is None.
    """

    topic: str
    key: Json = None
    value: Json = None
    timestamp: int = 0
    window: Window | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None
    cells: Mapping[str, str | None] | None = None
    file: Path | None = None
    line: int | None = None


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One expected record.

    `timestamp`, `partition` and `offset` are compared if given. `line` is its line in the file.
    """

    topic: str
    key: Json = None
    value: Json = None
    timestamp: int | None = None
    window: Window | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None
    line: int | None = None


class SchemaReference(msgspec.Struct, frozen=True):
    """A schema that a declared schema imports. It is registered first, as version 1 of the subject `name`."""

    name: str
    format: str
    schema: Json


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A declared topic. A schema is JSON for AVRO, JSON and JSON_SR, and a string for PROTOBUF."""

    name: str
    partitions: int = 1
    replicas: int = 1
    key_format: str | None = None
    value_format: str | None = None
    key_schema: Json = None
    value_schema: Json = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_references: tuple[SchemaReference, ...] = ()
    value_references: tuple[SchemaReference, ...] = ()
    key_features: frozenset[str] = frozenset()
    value_features: frozenset[str] = frozenset()


class ExpectedException(msgspec.Struct, frozen=True, kw_only=True):
    """The error that a negative case expects: a part of the message, and in our own cases its code.

    `type` and `cause` are the Java classes in ksqlDB's cases. They only tell whether the last statement must be the
    guilty one.
    """

    message: str | None = None
    type: str | None = None
    code: str | None = None
    cause: str | None = None
    cause_message: str | None = None


class ExpectedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source that must exist at the end. None is not compared, except that an absent window must be absent.

    `key_window` is (type, size in milliseconds). It is compared if the case gives a key format (`checks_key`).
    """

    name: str
    kind: str
    schema: str | None = None
    checks_key: bool = False
    key_format: str | None = None
    key_window: tuple[str | None, int | None] = (None, None)
    value_format: str | None = None
    key_features: frozenset[str] | None = None
    value_features: frozenset[str] | None = None
    is_source: bool | None = None


class FormatInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A format with properties, serde features, window type and size in milliseconds; compared as a whole."""

    format: str
    properties: Mapping[str, str] = MappingProxyType({})
    features: frozenset[str] = frozenset()
    window_type: str | None = None
    window_size: int | None = None


class SerdeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The serdes of a topic or store, as in the `schemas` of a stored spec; `schema` is a column list.

    The key or value is None if its serde belongs elsewhere.
    """

    schema: str
    key_format: FormatInfo | None = None
    value_format: FormatInfo | None = None


class ExpectedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that must exist at the end. Partitions and schemas are compared if given, ids always."""

    name: str
    key_format: FormatInfo
    value_format: FormatInfo
    partitions: int | None = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_schema: Json = None
    value_schema: Json = None


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """Checks of the final state. No topic name may match the regular expression `blacklist`."""

    sources: tuple[ExpectedSource, ...] = ()
    blacklist: str | None = None
    topics: tuple[ExpectedTopic, ...] = ()


class ExpectedLog(msgspec.Struct, frozen=True, kw_only=True):
    """One expected entry of the processing log. `message` is a part of it; None is not compared."""

    type: str | None = None
    message: str | None = None
    topic: str | None = None
    offset: int | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case after expansion.

    `id` is `path::slug[FORMAT][config]`, unique and stable; `name` is ksqlDB's expanded name. `outputs` is None if the
    file gives none, and empty if it asserts that nothing comes out. `rules` are the ids of docs/spec that the case
    proves. A `tolerant` case comes from a ksqlDB file and follows ksqlDB's rules. If `plan` names a plan.json, that
    plan is executed instead of the statements; `serdes` are the expected serdes of its last query, None if not
    compared. `functions` names the modules and Python files with the user functions of the case. If `script` names a
    file, its text is the one element of `statements`. `variables` are defined before the first statement.
    """

    has_records: ClassVar[bool] = True
    """Whether it is judged by the records that its queries write, and not by answers or by assertions of a script."""

    id: str
    file: Path
    line: int
    name: str
    statements: tuple[str, ...]
    format: str | None = None
    config: str | None = None
    inputs: tuple[InputRecord, ...] = ()
    outputs: tuple[OutputRecord, ...] | None = None
    topics: tuple[Topic, ...] = ()
    properties: Mapping[str, Json] = MappingProxyType({})
    expected_exception: ExpectedException | None = None
    post: Post | None = None
    log: tuple[ExpectedLog, ...] | None = None
    rules: tuple[str, ...] = ()
    tolerant: bool = False
    plan: Path | None = None
    serdes: Mapping[str, SerdeInfo] | None = None
    functions: tuple[str | Path, ...] = ()
    script: Path | None = None
    variables: Mapping[str, str] = MappingProxyType({})
    matching: Matching = Matching()

    def place_of(self, index: int, line: int, column: int) -> str:
        """Say where a position is: in the script, or in the statement `index` of the case."""
        if self.script is not None:
            return f"{self.script}:{line}:{column}"
        return f"{self.file}:{self.line}: {self.name}, statement {index + 1}, line {line}:{column}"

    @property
    def outputs_by_topic(self) -> dict[str, list[OutputRecord]]:
        """The expected records of each topic that has some."""
        topics: dict[str, list[OutputRecord]] = {}
        for record in self.outputs or ():
            topics.setdefault(record.topic, []).append(record)
        return topics

    @property
    def is_exact(self) -> bool:
        """Say whether fractions are compared with their scale."""
        return str(self.properties.get("use.exact.numeric.comparison", True)).lower() != "false"


class ActualRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a query wrote. `cause` is the input record that caused it, None if that is not known."""

    key: Actual = None
    value: Actual = None
    timestamp: int = 0
    window: Window | None = None
    headers: Headers = ()
    partition: int = 0
    offset: int = 0
    cause: InputRecord | None = None


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """A source of the final catalog.

    `kind` is `stream` or `table`, `schema` a column list, `key_window` as in ExpectedSource. `value_columns` are the
    names of the columns in the values of its topic.
    """

    name: str
    kind: str
    schema: str
    key_format: str
    value_format: str
    key_window: tuple[str | None, int | None] = (None, None)
    key_features: frozenset[str] = frozenset()
    value_features: frozenset[str] = frozenset()
    is_source: bool = False
    topic: str = ""
    value_columns: frozenset[str] = frozenset()


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """A topic at the end, with the schema ids that the case declares and the latest registered schemas.

    An expectation may name an `internal` topic (repartition, changelog); its records are otherwise not compared.
    """

    name: str
    key_format: FormatInfo
    value_format: FormatInfo
    partitions: int | None = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_schema: Json = None
    value_schema: Json = None
    internal: bool = False


class LogEntry(msgspec.Struct, frozen=True):
    """One entry of the processing log."""

    type: str
    message: str
    topic: str | None = None
    offset: int | None = None


class Produced(msgspec.Struct, frozen=True):
    """The case ran to its end.

    `records` holds the records that its queries wrote, by topic, in order. `serdes` belong to the last query. `silence`
    says which inputs had no effect, one sentence each. `event_times` are those of the inputs of the case (ms), None for
    one that was dropped for want of a timestamp; empty if they are not known.
    """

    records: Mapping[str, tuple[ActualRecord, ...]]
    sources: tuple[SourceState, ...] = ()
    topics: tuple[TopicState, ...] = ()
    log: tuple[LogEntry, ...] = ()
    serdes: Mapping[str, SerdeInfo] = MappingProxyType({})
    silence: tuple[str, ...] = ()
    event_times: tuple[int | None, ...] = ()

    @property
    def compared(self) -> dict[str, tuple[ActualRecord, ...]]:
        """The records of all topics but internal ones."""
        internal = {topic.name for topic in self.topics if topic.internal}
        return {topic: records for topic, records in self.records.items() if topic not in internal}


class Rejected(msgspec.Struct, frozen=True):
    """A statement was refused. `statement_index` counts from 0; it is None if the script does not parse.

    `place` shows where, as lines for people: the statement with the error underlined, and a hint.
    """

    message: str
    unlogged_message: str = ""
    statement_index: int | None = None
    is_last: bool = True
    error_code: str = ""
    place: str = ""


class Failed(msgspec.Struct, frozen=True):
    """A query failed while it processed records."""

    message: str


class Crashed(msgspec.Struct, frozen=True):
    """The driver failed on the case, which proves nothing about the case; reported as an error."""

    message: str


Outcome: TypeAlias = Produced | Rejected | Failed | Crashed


class Status(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Result(msgspec.Struct, frozen=True):
    """The result of one case.

    `reason` is empty for a case that passed, or `class: …` if its spec holds only in part. `carrier` is what ran its
    queries, `spark` or `process`; empty if the case could not be read.
    """

    case: Case
    status: Status
    seconds: float = 0.0
    reason: str = ""
    outcome: Outcome | None = None
    carrier: str = ""


class CaseFileError(Exception):
    """A case file, or a case in it, cannot be read. `line` counts from 1."""

    def __init__(self, file: Path, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file = file
        self.line = line
        self.message = message
