"""The WITH clauses of CREATE, CREATE AS and INSERT INTO, validated as far as that needs no schema."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kestrel_sql.errors import PropertyError, SqlSyntaxError
from kestrel_sql.formats.capabilities import DELIMITER, FULL_NAME, NULLABLE, SCHEMA_ID, capabilities_of
from kestrel_sql.java.time.pattern import compile_pattern
from kestrel_sql.plan.step import WindowInfo, WindowType
from kestrel_sql.planner.properties.values import (
    INSERT_KEYS,
    SINK_KEYS,
    SOURCE_KEYS,
    WithClause,
    check_delimiter,
    invalid,
    parse_duration,
    parse_identifier,
)
from kestrel_sql.sql.nodes.statements import Properties, SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProperties:
    """The topic of a source or sink; `name` None takes the default, the rest None what the topic has."""

    name: str | None = None
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideProperties:
    """What a statement says of the format of the key, or of the value; `format` is upper case.

    `properties` are format properties by their plan names, sorted, `schemaId` among them.
    """

    format: str | None = None
    properties: tuple[tuple[str, str], ...] = ()

    def setting(self, name: str) -> str | None:
        """The format property called `name`, or None."""
        return dict(self.properties).get(name)

    @property
    def schema_id(self) -> int | None:
        """The id of the schema in the registry that was asked for, or None."""
        text = self.setting(SCHEMA_ID)
        return None if text is None else int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampProperty:
    """TIMESTAMP and TIMESTAMP_FORMAT; `column` is an exact name."""

    column: str
    format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProperties:
    """The WITH clause of CREATE STREAM|TABLE over a topic."""

    topic: TopicProperties
    key: SideProperties
    value: SideProperties
    wrap_single_value: bool | None = None
    timestamp: TimestampProperty | None = None
    window: WindowInfo | None = None
    connector: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProperties:
    """The WITH clause of CREATE STREAM|TABLE AS SELECT."""

    topic: TopicProperties = TopicProperties()
    key: SideProperties = SideProperties()
    value: SideProperties = SideProperties()
    wrap_single_value: bool | None = None
    timestamp: TimestampProperty | None = None
    headers: str | None = None
    """The exact name of the column that holds the headers of the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertProperties:
    """The WITH clause of INSERT INTO … SELECT."""

    query_id: str | None = None


def source_properties(properties: Properties) -> SourceProperties:
    """Validate the WITH clause of a CREATE over a topic.

    Raises:
        PropertyError: see rules L6.
        FormatError: an unknown format.
    """
    clause = WithClause(properties, SOURCE_KEYS)
    if "KAFKA_TOPIC" not in clause:
        raise PropertyError(
            'Failed to prepare statement: Missing required property "KAFKA_TOPIC" which has no default value.'
        )
    return SourceProperties(
        topic=_topic(clause),
        key=_side(clause, "KEY"),
        value=_side(clause, "VALUE"),
        wrap_single_value=clause.boolean("WRAP_SINGLE_VALUE"),
        timestamp=_timestamp(clause),
        window=_window(clause),
        connector=clause.text("SOURCED_BY_CONNECTOR") or clause.text("SOURCE_CONNECTOR"),
    )


def sink_properties(properties: Properties) -> SinkProperties:
    """Validate the WITH clause of a CREATE AS.

    Raises:
        PropertyError: see rules L6.
        FormatError: an unknown format.
    """
    clause = WithClause(properties, SINK_KEYS)
    headers = clause.text("HEADERS")
    return SinkProperties(
        topic=_topic(clause),
        key=_side(clause, "KEY"),
        value=_side(clause, "VALUE"),
        wrap_single_value=clause.boolean("WRAP_SINGLE_VALUE"),
        timestamp=_timestamp(clause),
        headers=None if headers is None else parse_identifier(headers),
    )


_QUERY_ID = re.compile(r"[A-Z0-9_]+")
_RESERVED_IDS = ("INSERTQUERY_", "CTAS_", "CSAS_", "CST_")


def insert_properties(properties: Properties) -> InsertProperties:
    """Validate the WITH clause of an INSERT INTO.

    Raises:
        PropertyError: an unknown property, or a query id that is not a name or is reserved.
    """
    query_id = WithClause(properties, INSERT_KEYS).text("QUERY_ID")
    if query_id is None:
        return InsertProperties()
    upper = query_id.upper()
    if not _QUERY_ID.fullmatch(upper):
        raise invalid("QUERY_ID", f"Query IDs may contain only alphanumeric characters and '_'. Got: '{query_id}'")
    if upper.startswith(_RESERVED_IDS):
        raise invalid("QUERY_ID", f"Query IDs must not start with a reserved query ID prefix. Got: '{query_id}'")
    return InsertProperties(query_id=upper)


def _topic(clause: WithClause) -> TopicProperties:
    if "CLEANUP_POLICY" in clause:
        raise PropertyError(
            "Invalid config variable in the WITH clause: CLEANUP_POLICY. The CLEANUP_POLICY config is set automatically "
            "according to the kind of the source and cannot be changed."
        )
    name = clause.text("KAFKA_TOPIC")
    if name is not None and not name.strip():
        raise invalid("KAFKA_TOPIC", "String must be non-empty")
    return TopicProperties(
        name=name,
        partitions=clause.integer("PARTITIONS"),
        replicas=clause.integer("REPLICAS", 16),
        retention_ms=clause.integer("RETENTION_MS", 64),
    )


def _side(clause: WithClause, side: str) -> SideProperties:
    if "FORMAT" in clause and f"{side}_FORMAT" in clause:
        raise PropertyError(
            f"Cannot supply both '{side}_FORMAT' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats. "
            "Either use just 'FORMAT', or use 'KEY_FORMAT' and 'VALUE_FORMAT'."
        )
    name = clause.text("FORMAT") or clause.text(f"{side}_FORMAT")
    properties = _format_properties(clause, side)
    if name is not None and NULLABLE in properties and NULLABLE not in capabilities_of(name).properties:
        raise PropertyError(
            f"Property {side}_PROTOBUF_NULLABLE_REPRESENTATION can only be enabled with protobuf format"
        )
    return SideProperties(
        format=None if name is None else capabilities_of(name).name,
        properties=tuple(sorted(properties.items())),
    )


def _format_properties(clause: WithClause, side: str) -> dict[str, str]:
    found: dict[str, str] = {}
    delimiter = clause.text(f"{side}_DELIMITER")
    if delimiter is not None:
        check_delimiter(f"{side}_DELIMITER", delimiter)
        found[DELIMITER] = delimiter
    full_name = _full_name(clause, side)
    if full_name is not None:
        found[FULL_NAME] = full_name
    schema_id = clause.integer(f"{side}_SCHEMA_ID")
    if schema_id is not None:
        found[SCHEMA_ID] = str(schema_id)
    nullable = clause.choice(f"{side}_PROTOBUF_NULLABLE_REPRESENTATION", ("OPTIONAL", "WRAPPER"))
    if nullable is not None:
        found[NULLABLE] = nullable.lower()
    return found


def _full_name(clause: WithClause, side: str) -> str | None:
    name = clause.text(f"{side}_SCHEMA_FULL_NAME")
    legacy = clause.text("VALUE_AVRO_SCHEMA_FULL_NAME") if side == "VALUE" else None
    if name is not None and legacy is not None:
        raise PropertyError(
            "Cannot supply both 'VALUE_AVRO_SCHEMA_FULL_NAME' and 'VALUE_SCHEMA_FULL_NAME' properties. Please use 'VALUE_SCHEMA_FULL_NAME'."
        )
    return name if name is not None else legacy


def _timestamp(clause: WithClause) -> TimestampProperty | None:
    pattern = clause.text("TIMESTAMP_FORMAT")
    if pattern is not None:
        check_pattern(pattern)
    column = clause.text("TIMESTAMP")
    if column is None:
        return None
    try:
        return TimestampProperty(column=parse_identifier(column), format=pattern)
    except SqlSyntaxError as error:
        raise invalid("TIMESTAMP", error.message) from error


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that no timestamp can be read with.

    Raises:
        PropertyError: it is none of Java's.
    """
    try:
        compile_pattern(pattern)
    except ValueError as error:
        flaw = f"Invalid datetime format for config:TIMESTAMP_FORMAT, reason:{error}, value:{pattern}"
        raise invalid("TIMESTAMP_FORMAT", flaw) from error


def check_retention(kind: SourceKind, topic: TopicProperties, *, windowed: bool) -> None:
    """Refuse RETENTION_MS where the topic is compacted (rules L6).

    Raises:
        PropertyError: a table without windows keeps its rows for ever.
    """
    if topic.retention_ms is not None and kind is SourceKind.TABLE and not windowed:
        raise PropertyError(
            "Invalid config variable in the WITH clause: RETENTION_MS. Tables without windows do not support retention.",
            hint="Leave RETENTION_MS out; a row of a table is removed by a tombstone.",
        )


def _window(clause: WithClause) -> WindowInfo | None:
    size = clause.text("WINDOW_SIZE")
    word = clause.choice("WINDOW_TYPE", tuple(kind.value for kind in WindowType))
    if word is None:
        if size is not None:
            raise PropertyError("'WINDOW_SIZE' requires 'WINDOW_TYPE' to be provided in the WITH clause.")
        return None
    kind = WindowType(word)
    if kind is WindowType.SESSION:
        if size is not None:
            raise PropertyError("'WINDOW_SIZE' should not be set for SESSION windows.")
        return WindowInfo(kind)
    if size is None:
        raise PropertyError(
            f"{word} windows require 'WINDOW_SIZE' to be provided in the WITH clause. For example: 'WINDOW_SIZE'='10 SECONDS'"
        )
    try:
        return WindowInfo(kind, parse_duration(size))
    except ValueError as error:
        raise invalid("WINDOW_SIZE", str(error)) from error
