"""What a case, its records and its outcome are; no files, no engine, no pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

Json: TypeAlias = "bool | int | Decimal | str | list[Json] | dict[str, Json] | None"
"""A value as read from a case file: fractions are decimals that keep their scale."""

Actual: TypeAlias = "bool | int | float | Decimal | str | bytes | Sequence[Actual] | Mapping[str, Actual] | None"
"""A value as a driver hands it out.

JSON, KAFKA and DELIMITED values are what an exact reader of the written text gives: `int`, `Decimal` for every number with
a fraction or exponent, `str`. AVRO, PROTOBUF, JSON_SR and PROTOBUF_NOSR values are typed: `float` for doubles, `Decimal` with the
scale of its type, `bytes`, dates and times as integers (rules Q6.3 and Q6.4).
"""

CLASS_PREFIX = "class: "
"""What the reason of a case starts with that passed although its spec holds in part only."""

Headers: TypeAlias = "tuple[tuple[str, bytes | None], ...]"


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a windowed key: bounds in epoch milliseconds, kind `session` or `time` (tumbling and hopping)."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """One record to feed; a null value is a tombstone.

    `timestamp` is in epoch milliseconds. `partition` and `offset` are None where the file gives none: partition 0
    and the next offset of that partition.
    """

    topic: str
    key: Json = None
    value: Json = None
    timestamp: int = 0
    window: Window | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRecord:
    """One expected record; `timestamp`, `partition` and `offset` are compared where they are given, `line` is its line in the file."""

    topic: str
    key: Json = None
    value: Json = None
    timestamp: int | None = None
    window: Window | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that a declared schema imports; registered first, as version 1 of the subject `name`."""

    name: str
    format: str
    schema: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A declared topic; a schema is JSON for AVRO, JSON and JSON_SR, and text for PROTOBUF."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedException:
    """What a negative case expects: a part of the message, and in our own cases the code of the error.

    `type` and `cause` are the Java classes of foreign cases; only the question whether the last statement must be the guilty
    one is answered from them.
    """

    message: str | None = None
    type: str | None = None
    code: str | None = None
    cause: str | None = None
    cause_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSource:
    """A source that must exist at the end; None means not compared, save that an absent window must be absent.

    `key_window` is (type, size in milliseconds); it is compared where `checks_key` says that the case gives a key format.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatInfo:
    """A format with everything that is compared whole: properties, serde features, window type and size in milliseconds."""

    format: str
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    features: frozenset[str] = frozenset()
    window_type: str | None = None
    window_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SerdeInfo:
    """What a query writes to a topic or store, as the `schemas` of a stored spec say it: `schema` is a column list.

    A side that is made elsewhere is None.
    """

    schema: str
    key_format: FormatInfo | None = None
    value_format: FormatInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTopic:
    """A topic that must exist at the end; partitions and schemas are compared where they are given, ids always."""

    name: str
    key_format: FormatInfo
    value_format: FormatInfo
    partitions: int | None = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_schema: Json = None
    value_schema: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Checks of the final state; `blacklist` is a regular expression that no topic name may contain."""

    sources: tuple[ExpectedSource, ...] = ()
    blacklist: str | None = None
    topics: tuple[ExpectedTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedLog:
    """One expected entry of the processing log; `message` is a part of it, None means not compared."""

    type: str | None = None
    message: str | None = None
    topic: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One concrete case, after expansion.

    `id` is `path::slug[FORMAT][config]`, unique and stable; `name` is the expanded name of ksqlDB; `outputs` is None where the
    file gives none and empty where it asserts silence; `rules` are ids of docs/spec that it proves. A `tolerant` case comes from a foreign ksqlDB file and keeps ksqlDB's
    rules. Where `plan` names a plan.json, that plan is executed and the statements are not planned; `serdes` is what its last
    query must write where, None for not compared. `functions` names the modules and Python files whose functions the case may
    call beyond those that ship.
    """

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
    properties: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    expected_exception: ExpectedException | None = None
    post: Post | None = None
    log: tuple[ExpectedLog, ...] | None = None
    rules: tuple[str, ...] = ()
    tolerant: bool = False
    plan: Path | None = None
    serdes: Mapping[str, SerdeInfo] | None = None
    functions: tuple[str | Path, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Say whether fractions are compared with their scale."""
        return str(self.properties.get("use.exact.numeric.comparison", True)).lower() != "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualRecord:
    """One record that a query wrote."""

    key: Actual = None
    value: Actual = None
    timestamp: int = 0
    window: Window | None = None
    headers: Headers = ()
    partition: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source of the final catalog: `kind` is `stream` or `table`, `schema` a column list, `key_window` as in ExpectedSource."""

    name: str
    kind: str
    schema: str
    key_format: str
    value_format: str
    key_window: tuple[str | None, int | None] = (None, None)
    key_features: frozenset[str] = frozenset()
    value_features: frozenset[str] = frozenset()
    is_source: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic known at the end; the schema ids are those that the case declares, the schemas the latest registered.

    An `internal` topic (repartition, changelog) may be named by an expectation, and is free to hold records otherwise.
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


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of the processing log."""

    type: str
    message: str
    topic: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """The case ran to its end; `records` holds what its queries wrote by topic, in order of production, `serdes` is of the last."""

    records: Mapping[str, tuple[ActualRecord, ...]]
    sources: tuple[SourceState, ...] = ()
    topics: tuple[TopicState, ...] = ()
    log: tuple[LogEntry, ...] = ()
    serdes: Mapping[str, SerdeInfo] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Rejected:
    """A statement was refused; `statement_index` counts from 0 and is None where the script as a whole does not parse."""

    message: str
    unlogged_message: str = ""
    statement_index: int | None = None
    is_last: bool = True
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A query died while records were piped."""

    message: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """The driver itself broke on the case, which says nothing about the case; reported as an error."""

    message: str


Outcome: TypeAlias = Produced | Rejected | Failed | Crashed


class Status(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one case; `reason` is empty for a case that passed, or `class: …` names why its spec holds in part only."""

    case: Case
    status: Status
    seconds: float = 0.0
    reason: str = ""


class CaseFileError(Exception):
    """A case file, or one case of it, that cannot be read; `line` counts from 1."""

    def __init__(self, file: Path, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file = file
        self.line = line
        self.message = message
