"""Nodes of CREATE SOURCE … FROM KAFKA … INCLUDE, the statement in the manner of Materialize (docs/adr/0012)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kestrel_sql.sql.nodes.expressions import Node


class Included(Enum):
    """What INCLUDE can take from a message; the value is the word of the language."""

    KEY = "KEY"
    PARTITION = "PARTITION"
    OFFSET = "OFFSET"
    TIMESTAMP = "TIMESTAMP"
    TOPIC = "TOPIC"
    HEADERS = "HEADERS"
    HEADER = "HEADER"


@dataclass(frozen=True, slots=True)
class MessageFormat(Node):
    """How key or value of a message is written.

    `name` is TEXT, BYTES, JSON, CSV, REGEX, AVRO or PROTOBUF. `columns` is the number of columns of a CSV without names, `names` are
    those of one with a header; `schema` is a schema that the statement holds itself, `message` the one of its definitions.
    """

    name: str
    columns: int | None = None
    names: tuple[str, ...] = ()
    delimiter: str | None = None
    pattern: str | None = None
    message: str | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class IncludeItem(Node):
    """One item of INCLUDE; `header_key` and `as_bytes` for HEADER only, which always has an alias."""

    item: Included
    alias: str | None = None
    header_key: str | None = None
    as_bytes: bool = False


@dataclass(frozen=True, slots=True)
class KafkaTopic(Node):
    """Where the messages are: the name of a connection or the address of a broker, the topic, the first offset of each partition."""

    topic: str
    connection: str | None = None
    broker: str | None = None
    start_offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvelopeClause(Node):
    """ENVELOPE; `name` as written, upper case. `inline_errors` asks for a column of decoding errors, called `error_name` if given."""

    name: str
    inline_errors: bool = False
    error_name: str | None = None


@dataclass(frozen=True, slots=True)
class CreateKafkaSource(Node):
    """CREATE SOURCE over a Kafka topic; `columns` rename the first columns, `key` None is a bare FORMAT."""

    name: str
    place: KafkaTopic
    value: MessageFormat
    key: MessageFormat | None = None
    columns: tuple[str, ...] = ()
    include: tuple[IncludeItem, ...] = ()
    envelope: EnvelopeClause | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateGeneratedSource(Node):
    """CREATE SOURCE from a load generator, which is read in order to be refused well."""

    name: str
    generator: str
    include: tuple[IncludeItem, ...] = ()
    if_not_exists: bool = False
