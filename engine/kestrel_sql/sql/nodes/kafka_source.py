"""Nodes of CREATE SOURCE … FROM KAFKA … INCLUDE, a statement modelled on Materialize (docs/adr/0012)."""

from __future__ import annotations

from enum import Enum

from kestrel_sql.sql.nodes.expressions import Node


class Included(Enum):
    """What INCLUDE adds from a message; the value is the keyword."""

    KEY = "KEY"
    PARTITION = "PARTITION"
    OFFSET = "OFFSET"
    TIMESTAMP = "TIMESTAMP"
    TOPIC = "TOPIC"
    HEADERS = "HEADERS"
    HEADER = "HEADER"


class MessageFormat(Node, frozen=True):
    """The format of the key or the value of a message.

    `name` is TEXT, BYTES, JSON, CSV, REGEX, AVRO or PROTOBUF. For CSV, `names` are the columns of a header, `columns`
    is the number of columns without one, `delimiter` separates them. `pattern` is the expression of REGEX. `schema` is
    an inline schema, `message` the name of the message in it.
    """

    name: str
    columns: int | None = None
    names: tuple[str, ...] = ()
    delimiter: str | None = None
    pattern: str | None = None
    message: str | None = None
    schema: str | None = None


class IncludeItem(Node, frozen=True):
    """One item of INCLUDE; `header_key` and `as_bytes` are for HEADER only, which always has an alias."""

    item: Included
    alias: str | None = None
    header_key: str | None = None
    as_bytes: bool = False


class KafkaTopic(Node, frozen=True):
    """A topic with its connection name or broker address, and the first offset of each partition."""

    name: str
    connection: str | None = None
    broker: str | None = None
    start_offsets: tuple[int, ...] = ()


class EnvelopeClause(Node, frozen=True):
    """ENVELOPE with its name in upper case.

    `inline_errors` adds a column with decoding errors, called `error_name` if given.
    """

    name: str
    inline_errors: bool = False
    error_name: str | None = None


class CreateKafkaSource(Node, frozen=True):
    """CREATE SOURCE over a Kafka topic; `columns` renames the first columns, `key` is None for a bare FORMAT."""

    name: str
    topic: KafkaTopic
    value: MessageFormat
    key: MessageFormat | None = None
    columns: tuple[str, ...] = ()
    include: tuple[IncludeItem, ...] = ()
    envelope: EnvelopeClause | None = None
    if_not_exists: bool = False


class CreateGeneratedSource(Node, frozen=True):
    """CREATE SOURCE from a load generator; it parses so that the planner can reject it with a clear message."""

    name: str
    generator: str
    include: tuple[IncludeItem, ...] = ()
    if_not_exists: bool = False
